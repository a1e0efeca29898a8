"""Slow, obvious versions of every stage, straight from the formulas."""

import math

import numpy as np
from scipy.spatial.distance import cdist


def gray(rgb):
    weighted = 0.2989 * rgb[..., 0] + 0.5870 * rgb[..., 1] + 0.1140 * rgb[..., 2]
    return np.floor(weighted + 0.5).astype(np.uint8)


def cubic(t):
    t = abs(t)
    if t <= 1:
        return 1.5 * t**3 - 2.5 * t**2 + 1
    if t <= 2:
        return -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
    return 0.0


def resize(image, max_side, min_side=0):
    longer = max(image.shape)
    if min_side <= longer <= max_side:
        return image
    scale = (max_side if longer > max_side else min_side) / longer
    for _ in range(2):  # rows, then columns
        image = resize_rows(image, scale).T
    return image


def resize_rows(image, scale):
    narrow = min(scale, 1)
    size = len(image)
    outputs = math.ceil(scale * size - 1e-9)
    result = np.zeros((outputs, image.shape[1]))
    for i in range(1, outputs + 1):
        position = i / scale + (1 - 1 / scale) / 2
        total = 0.0
        for j in range(math.floor(position - 3 / narrow), math.ceil(position + 3 / narrow) + 1):
            weight = cubic(narrow * (position - j))
            mirrored = (j - 1) % (2 * size)
            if mirrored >= size:
                mirrored = 2 * size - 1 - mirrored
            result[i - 1] += weight * image[mirrored]
            total += weight
        result[i - 1] /= total
    return result


def correlate(image, kernel):
    """Correlation with a 5x5 kernel, zeros outside."""
    padded = np.pad(image, 2)
    out = np.zeros(image.shape)
    for dy in range(5):
        for dx in range(5):
            out += kernel[dy, dx] * padded[dy : dy + image.shape[0], dx : dx + image.shape[1]]
    return out


def dense_sift(image, step=6, patch_size=16, least=0.0):
    """Raw and normalised descriptors, x and y of the (padded) image.

    Gradients whose square is below ``least`` count as (square / least)^4 of themselves.
    """
    image = np.asarray(image, np.float64)
    missing = [max(0, patch_size - side) for side in image.shape]
    image = np.pad(image, [(m // 2, m - m // 2) for m in missing], mode="edge")
    g = np.exp(-(np.arange(-2, 3) ** 2) / (2 * 0.8**2))
    g /= g.sum()
    d = np.gradient(g)
    d *= 2 / np.abs(d).sum()
    ix, iy = correlate(image, np.outer(g, d)), correlate(image, np.outer(d, g))
    magnitude, theta = np.hypot(ix, iy), np.arctan2(iy, ix)
    faded = magnitude if least == 0 else magnitude * np.minimum(1, magnitude**2 / least) ** 4
    maps = [faded * np.maximum(0, np.cos(theta - a * np.pi / 4)) ** 9 for a in range(8)]
    bin_size = patch_size / 4
    centers = [(b + 0.5) * bin_size - 0.5 for b in range(4)]
    weights = np.array(
        [[max(0, 1 - abs(p - c) / bin_size) for c in centers] for p in range(patch_size)]
    )
    height, width = image.shape
    raw, x, y = [], [], []
    for top in range(((height - patch_size) % step) // 2, height - patch_size + 1, step):
        for left in range(((width - patch_size) % step) // 2, width - patch_size + 1, step):
            descriptor = np.zeros(128)
            for a in range(8):
                patch = maps[a][top : top + patch_size, left : left + patch_size]
                bins = weights.T @ patch @ weights
                for ybin in range(4):
                    for xbin in range(4):
                        descriptor[a + 8 * (ybin + 4 * xbin)] = bins[ybin, xbin]
            raw.append(descriptor)
            x.append(left + (patch_size - 1) / 2)
            y.append(top + (patch_size - 1) / 2)
    values = []
    for descriptor in raw:
        norm = np.linalg.norm(descriptor)
        if norm >= 1:
            clipped = np.minimum(descriptor / norm, 0.2)
            values.append(clipped / np.linalg.norm(clipped))
        else:
            values.append(np.minimum(descriptor, 0.2))
    return np.array(raw), np.array(values), np.array(x), np.array(y)


def lrr_codes(X, codebook, regularization, threshold, normalize=False):
    D = np.asarray(codebook, np.float64).T
    k = D.shape[1]
    projection = np.linalg.inv(D.T @ D + regularization * np.eye(k)) @ D.T
    codes = []
    for x in np.asarray(X, np.float64):
        c = projection @ x
        norm = np.linalg.norm(c)
        codes.append(truncated(c, threshold) / (norm if normalize and norm > 0 else 1))
    return np.array(codes)


def truncated(c, threshold):
    """A code without its entries below the threshold."""
    total = c.sum()
    cut = threshold > 0 and total != 0
    return np.array([0 if cut and v / total < threshold / len(c) else v for v in c])


def kernel(name, x, y, width):
    """Kernel of two descriptors; width is the squared bandwidth of rbf."""
    if name == "rbf":
        return np.exp(-((x - y) ** 2).sum() / width)
    if name == "hellinger":
        return sum(np.sqrt(a * b) for a, b in zip(x, y, strict=True))
    if name == "intersection":
        return np.minimum(x, y).sum()
    return sum(2 * a * b / (a + b) for a, b in zip(x, y, strict=True) if a + b > 0)


def kernel_lrr_codes(X, codebook, name, regularization, threshold):
    """Codes from the k x k system of the kernel itself."""
    X, D = np.asarray(X, np.float64), np.asarray(codebook, np.float64)
    k = len(D)
    pairs = [((D[i] - D[j]) ** 2).sum() for i in range(k) for j in range(i)]
    width = np.median(pairs) if pairs and np.median(pairs) > 0 else 1
    gram = np.array([[kernel(name, a, b, width) for b in D] for a in D])
    scale = np.trace(gram) / k
    against = np.array([[kernel(name, d, x, width) for d in D] for x in X])
    codes = np.linalg.solve(gram / scale + regularization * np.eye(k), against.T / scale).T
    return np.array([truncated(c, threshold) for c in codes])


def patches_of_cells(x, y, width, height, levels):
    """For every cell of every level the level's weight and the indices of the patches in it."""
    # The finest level weighs most: 1/2, 1/4, ..., and the two coarsest the same.
    finest_first = sorted(levels, reverse=True)
    weights = [2.0 ** -(i + 1) for i in range(len(levels) - 1)]
    weights.append(weights[-1] if weights else 1.0)
    for n in levels:
        for row in range(1, n + 1):
            for column in range(1, n + 1):
                inside = [
                    i
                    for i in range(len(x))
                    if math.ceil((x[i] + 1) / (width / n)) == column
                    and math.ceil((y[i] + 1) / (height / n)) == row
                ]
                yield weights[finest_first.index(n)], inside


def pool(codes, x, y, width, height, levels=(1, 2, 4), pooling="max", norm="l2"):
    cells = []
    for weight, inside in patches_of_cells(x, y, width, height, levels):
        if not inside:
            cells.append(np.zeros(codes.shape[1]))
        elif pooling == "max":
            cells.append(np.abs(codes[inside]).max(axis=0))
        elif pooling == "signed_max":
            cells.append(codes[inside].max(axis=0))
        elif pooling == "average":
            cells.append(codes[inside].mean(axis=0))
        else:
            cells.append(weight * codes[inside].sum(axis=0) / len(codes))
    vector = np.concatenate(cells)
    length = {"l2": np.linalg.norm(vector), "l1": np.abs(vector).sum(), None: 1}[norm]
    return vector / length if length > 0 else vector


def attribute(codes, x, y, width, height, weights, levels, pooling, norm):
    """What each patch adds to weights @ vector."""
    plain = pool(codes, x, y, width, height, levels, pooling, None)
    length = {"l2": np.linalg.norm(plain), "l1": np.abs(plain).sum(), None: 1}[norm]
    slopes = weights.reshape(-1, codes.shape[1]) / (length if length > 0 else 1)
    shares = np.zeros(len(codes))
    for cell, (weight, inside) in enumerate(patches_of_cells(x, y, width, height, levels)):
        for j in range(codes.shape[1]):
            values = [abs(codes[i, j]) if pooling == "max" else codes[i, j] for i in inside]
            if "max" in pooling and inside:
                winner = values.index(max(values))  # the first of equal ones
                shares[inside[winner]] += slopes[cell, j] * values[winner]
            elif pooling == "average":
                for i, value in zip(inside, values, strict=True):
                    shares[i] += slopes[cell, j] * value / len(inside)
            elif pooling == "histogram":
                for i, value in zip(inside, values, strict=True):
                    shares[i] += slopes[cell, j] * weight * value / len(codes)
    return shares


def lloyd_step(X, centers):
    """New centers (where a center has descriptors) and the sum of squared distances."""
    distances = cdist(np.asarray(X, np.float64), centers, "sqeuclidean")
    nearest = distances.argmin(axis=1)
    moved = np.array(
        [
            X[nearest == j].mean(axis=0) if (nearest == j).any() else centers[j]
            for j in range(len(centers))
        ]
    )
    return moved, distances.min(axis=1).sum()


def descend(gram, scores, alphas, signs, ridges, orders):
    alphas = alphas.astype(np.float64)
    delta = np.zeros_like(scores)
    for c in range(len(scores)):
        for order in orders:
            for i in order:
                score = scores[c, i] + delta[c] @ gram[:, i]
                gradient = signs[c, i] * score - 1 + ridges[i] * alphas[c, i]
                new = max(0, alphas[c, i] - gradient / (gram[i, i] + ridges[i]))
                delta[c, i] += signs[c, i] * (new - alphas[c, i])
                alphas[c, i] = new
    return alphas, delta


def svm_objective(weights, X, signs, C):
    slack = np.maximum(0, 1 - signs * (X @ weights))
    return 0.5 * weights @ weights + C * (slack**2).sum()


def least_squares(X, signs, C, weights):
    """Weights (d,) of min 1/2 |w|^2 + C sum v (1 - y w'x)^2: rows of a least-squares problem."""
    scale = np.sqrt(2 * C * weights)
    rows = np.vstack([scale[:, None] * X, np.eye(X.shape[1])])
    targets = np.concatenate([scale * signs, np.zeros(X.shape[1])])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]


def vq_codes(X, codebook):
    codes = np.zeros((len(X), len(codebook)))
    for i, x in enumerate(X):
        codes[i, np.argmin([((x - d) ** 2).sum() for d in codebook])] = 1
    return codes


def llc_codes(X, codebook, n_neighbors=5, regularization=1e-4):
    codes = np.zeros((len(X), len(codebook)))
    for i, x in enumerate(np.asarray(X, np.float64)):
        nearest = np.argsort([((x - d) ** 2).sum() for d in codebook], kind="stable")[:n_neighbors]
        z = codebook[nearest] - x
        gram = z @ z.T
        gram += regularization * np.trace(gram) * np.eye(len(nearest))
        weights = np.linalg.solve(gram, np.ones(len(nearest)))
        codes[i, nearest] = weights / weights.sum()
    return codes


def sparse_objective(x, code, codebook, sparsity, ridge):
    error = x - code @ codebook
    return 0.5 * error @ error + sparsity * np.abs(code).sum() + ridge * code @ code


def intersection(X, Y):
    return np.array([[np.minimum(x, y).sum() for y in Y] for x in X])


def chi2(X, Y):
    def one(x, y):
        both = x + y > 0
        return (2 * x[both] * y[both] / (x[both] + y[both])).sum()

    return np.array([[one(x, y) for y in Y] for x in X])


def smoothed(image, sigma):
    """A Gaussian cut at three deviations, borders repeated, pixel by pixel."""
    reach = max(1, round(3 * sigma))
    taps = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    taps /= taps.sum()
    padded = np.pad(image.astype(float), reach, mode="edge")
    out = np.zeros(image.shape)
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            window = padded[y : y + 2 * reach + 1, x : x + 2 * reach + 1]
            out[y, x] = taps @ window @ taps
    return out


def root_normalized(raw):
    """Unit length, clipped at 0.2, unit length, sum 1, square root; 0 stays 0."""
    if np.linalg.norm(raw) <= 1e-3:
        return np.zeros(len(raw))
    clipped = np.minimum(raw / np.linalg.norm(raw), 0.2)
    unit = clipped / np.linalg.norm(clipped)
    return np.sqrt(unit / unit.sum())


def binary_patterns(image, radius):
    """Pattern (0 to 255, clockwise from the top left) and mean contrast of each pixel."""
    height, width = image.shape
    around = [(-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1)]
    patterns, contrast = np.zeros(image.shape, int), np.zeros(image.shape)
    for y in range(height):
        for x in range(width):
            for bit, (dy, dx) in enumerate(around):
                row = min(max(y + dy * radius, 0), height - 1)
                column = min(max(x + dx * radius, 0), width - 1)
                difference = float(image[row, column]) - float(image[y, x])
                patterns[y, x] += (difference > 0) << bit
                contrast[y, x] += abs(difference)
    return patterns, np.where(contrast >= 1e-4, contrast, 0)


def lbp_patch(patterns, contrast):
    """Histograms of the uniform patterns in 2 x 2 cells of one patch, rooted."""

    def changes(pattern):
        bits = [pattern >> i & 1 for i in range(8)]
        return sum(bits[i] != bits[(i + 1) % 8] for i in range(8))

    uniform = [pattern for pattern in range(256) if changes(pattern) <= 2]
    half = len(patterns) // 2
    histogram = np.zeros((4, 59))
    for y in range(2 * half):
        for x in range(2 * half):
            pattern = patterns[y, x]
            place = uniform.index(pattern) if pattern in uniform else 58
            histogram[2 * (y // half) + x // half, place] += contrast[y, x]
    total = histogram.sum()
    return np.sqrt(histogram / total).ravel() if total > 0 else histogram.ravel()


def color_statistics(patch):
    """Mean and deviation of each color in 4 x 4 cells of one patch (p, p, 3)."""
    cell = len(patch) // 4
    values = []
    for y in range(4):
        for x in range(4):
            inside = patch[y * cell : (y + 1) * cell, x * cell : (x + 1) * cell].reshape(-1, 3)
            values += [*inside.mean(axis=0), *inside.std(axis=0)]
    return np.array(values)


def low_rank_weights(x, codebook, constant, regularization, survivors, power):
    """Weights of one descriptor, from the ridge problem itself."""
    atoms = np.hstack([codebook, np.full((len(codebook), 1), constant)])
    scale = (atoms**2).sum() / len(atoms)
    inner = atoms.T @ atoms / scale + regularization * np.eye(atoms.shape[1])
    z = np.append(x, constant) @ np.linalg.inv(inner) @ atoms.T / scale
    if z.max() <= 0:
        return np.eye(len(z))[z.argmax()]
    kept = np.where(z >= survivors * z.max(), z, 0) ** power
    return kept / kept.sum()


def moments(values, codes, shares, means, deviations):
    """u and v of one region, (2 k m,), patch by patch."""
    k, m = means.shape
    u, v = np.zeros((k, m)), np.zeros((k, m))
    for x, code in zip(values.astype(float), codes.astype(float), strict=True):
        for j in range(k):
            away = (x - means[j]) / deviations[j]
            u[j] += code[j] * away / np.sqrt(shares[j])
            v[j] += code[j] * (away**2 - 1) / np.sqrt(2 * shares[j])
    return np.concatenate([u.ravel(), v.ravel()])


def moment_parts(values, codes, shares, means, deviations):
    """What each patch adds to each sum of moments, (n, 2km), first moments first."""
    parts = []
    for x, q in zip(values.astype(np.float64), codes, strict=True):
        unit = (x - means) / deviations
        first = q[:, None] * unit / np.sqrt(shares)[:, None]
        second = q[:, None] * (unit**2 - 1) / np.sqrt(2 * shares)[:, None]
        parts.append(np.concatenate([first.ravel(), second.ravel()]))
    return np.array(parts)


def share_sums(parts, evidence, canceled=0.1):
    """Share the evidence (d,) of sums among their parts (n, d); returns (n,)."""
    shares = np.zeros(len(parts))
    for column, worth in zip(parts.T, evidence, strict=True):
        total, amount = column.sum(), np.abs(column).sum()
        if amount > 0:
            clear = abs(total) >= canceled * amount
            shares += worth * (column / total if clear else np.abs(column) / amount)
    return shares


def spread(shares, y, x, height, width, shape):
    """Spread each patch's share over its pixels as a tent; what reaches out counts inside."""

    def cover(center, side, length):
        edges = (np.arange(length + 1) - center + side / 2) / side
        u = edges.clip(0, 1)
        below = np.where(u < 0.5, 2 * u**2, 1 - 2 * (1 - u) ** 2)
        return np.diff(below) / np.diff(below).sum()

    out = np.zeros(shape)
    for share, *where in zip(shares, y, x, height, width, strict=True):
        rows, columns = cover(where[0], where[2], shape[0]), cover(where[1], where[3], shape[1])
        out += share * np.outer(rows, columns)
    return out


def class_alignment(X, labels):
    """Correlate centered products of two different samples with being of one class."""
    n = len(X)
    center = np.eye(n) - 1 / n
    gram = center @ np.array([[x @ y for y in X] for x in X]) @ center
    alike = center @ np.array([[float(a == b) for b in labels] for a in labels]) @ center
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    k, y = (np.array([matrix[pair] for pair in pairs]) for matrix in (gram, alike))
    scale = np.sqrt((k @ k) * (y @ y))
    return k @ y / scale if scale > 1e-12 else 0.0


def posteriors(x, mixture, survivors):
    """Probabilities that one descriptor is of each Gaussian, the small ones cut."""
    shares, means, deviations = mixture
    logs = np.log(shares)
    for j in range(len(shares)):
        for value, mean, deviation in zip(x, means[j], deviations[j], strict=True):
            logs[j] -= np.log(deviation) + ((value - mean) / deviation) ** 2 / 2
    likely = np.exp(logs - logs.max())
    likely[likely < survivors] = 0
    return likely / likely.sum()


def vlad(values, codes, codebook):
    """Rooted sums of differences to each atom, each atom's of length 1, and so the region."""
    parts = []
    for j, atom in enumerate(codebook):
        total = np.zeros(len(atom))
        for x, code in zip(values.astype(float), codes, strict=True):
            total += code[j] * (x - atom)
        part = np.sign(total) * np.sqrt(np.abs(total))
        parts.append(part / (np.linalg.norm(part) or 1))
    region = np.concatenate(parts)
    return region / (np.linalg.norm(region) or 1)


def pnm_gray(values, most):
    """8-bit gray of PNM values (h, w, bands); deep gray has 16 bits in between, as in Pillow."""
    height, width, bands = values.shape
    out = np.empty((height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            if bands == 3:
                r, g, b = (round(int(value) / most * 255) for value in values[y, x])
                out[y, x] = int(0.2989 * r + 0.5870 * g + 0.1140 * b + 0.5)
            elif most > 255:
                out[y, x] = round(round(int(values[y, x, 0]) / most * 65535) * 255 / 65535)
            else:
                out[y, x] = round(int(values[y, x, 0]) / most * 255)
    return out
