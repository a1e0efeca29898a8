// Pictures as the browser sees them.

const THUMB = 104; // pixels, twice of what is shown
// Films would run below a map that is for their first picture, and browsers do not turn WebP
// upright.
const NOT_THESE = ["image/gif", "image/webp"];

export const UNREADABLE = "the file cannot be read any more; add it again";

// Whether a file is still where it was, and what it was.
export async function canBeRead(file) {
  try {
    // All of it: a file that has gone may seem empty, and reading nothing succeeds.
    await file.arrayBuffer();
  } catch {
    return false;
  }
  return true;
}

// The picture if the browser can show it, else null: the server's preview is shown instead.
export async function shownByBrowser(item) {
  if (NOT_THESE.includes(item.file.type)) return null;
  const picture = new Image();
  picture.src = item.url;
  try {
    await picture.decode();
  } catch {
    return null;
  }
  return picture;
}

export function drawThumb(place, picture) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = THUMB;
  const { naturalWidth: width, naturalHeight: height } = picture;
  const side = Math.min(width, height);
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(
    picture, (width - side) / 2, (height - side) / 2, side, side, 0, 0, THUMB, THUMB,
  );
  place.replaceChildren(canvas);
}
