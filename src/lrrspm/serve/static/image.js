// Images as the browser shows them.

const THUMB = 104; // pixels, twice the size shown
// An animation would play below the map of its first frame, and browsers ignore the orientation of
// WebP files.
const PREVIEWED = ["image/gif", "image/webp"];

export const UNREADABLE = "the file is no longer readable; add it again";

// Return whether a file still exists unchanged.
export async function isReadable(file) {
  try {
    // Read all of it: a deleted file may look empty, and reading nothing succeeds.
    await file.arrayBuffer();
  } catch {
    return false;
  }
  return true;
}

// Return the image if the browser can show it, else null: then the server sends a preview.
export async function decodeInBrowser(item) {
  if (PREVIEWED.includes(item.file.type)) return null;
  const image = new Image();
  image.src = item.url;
  try {
    await image.decode();
  } catch {
    return null;
  }
  return image;
}

export function drawThumb(place, image) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = THUMB;
  const { naturalWidth: width, naturalHeight: height } = image;
  const side = Math.min(width, height);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(
    image, (width - side) / 2, (height - side) / 2, side, side, 0, 0, THUMB, THUMB,
  );
  place.replaceChildren(canvas);
}
