// The law by which a configuration is picked: that of `a3gnn pick`, on the numbers that the views hold.

/**
 * Returns the place of the first quality that reaches `target` and keeps it; -1 where none does.
 *
 * The mean of the next qualities must be at the target too, as in `LearningCurve.first_reaching`.
 */
function firstReaching(qualities, target, law) {
  return qualities.findIndex((quality, place) => {
    const next = qualities.slice(place + 1, place + 1 + law.following);
    if (!next.length) return quality >= target;
    const mean = next.reduce((sum, one) => sum + one, 0) / next.length;
    return Math.min(quality, Math.max(mean, Math.min(...next))) >= target;
  });
}

/** Returns the seconds after which a candidate reaches the validation quality `target`; Infinity where it does not. */
function secondsTo(candidate, target, law) {
  if (target === law.least) return candidate.seconds ?? Infinity;
  const at = target === null ? -1 : firstReaching(candidate.qualities, target, law);
  return at < 0 ? Infinity : candidate.setup_s + candidate.batches[at] / candidate.batches_per_s;
}

/**
 * Returns the seconds to the target as a tuned.json has them; null where it is not reached.
 *
 * The median is at the median throughput, as `secondsTo` says; low and high are at the fastest and slowest replicate.
 */
function secondsRange(candidate, target, law) {
  const { measured } = candidate;
  const { curve, throughput_replicates: replicates, batches_per_epoch: perEpoch, setup_seconds: setup } = measured;
  const at = target === null || curve === null ? -1 : firstReaching(curve.val_accuracy, target, law);
  if (at < 0) return null;
  const paces = replicates.length ? replicates : [measured.throughput_epochs_per_s];
  const seconds = paces.map((epochs) => setup + curve.batches[at] / (epochs * perEpoch)).sort((a, b) => a - b);
  const median = secondsTo(candidate, target, law);
  return { median, low: seconds[0], high: seconds.at(-1), repeats: seconds.length };
}

/** Returns how long a candidate was trained, as a tuned.json has it; null without a learning curve. */
function trainedOf(measured) {
  const { curve, throughput_epochs_per_s: epochs, batches_per_epoch: perEpoch, setup_seconds: setup } = measured;
  if (curve === null || !curve.batches.length) return null;
  const batches = curve.batches.at(-1);
  return { batches, seconds: setup + batches / (epochs * perEpoch) };
}

/** Returns what is minimized: log2 of slowness, log2 of memory, and less quality. */
function costs(candidate, asked, law) {
  const speed = asked.priority.time
    ? Math.log2(secondsTo(candidate, asked.least, law))
    : -Math.log2(candidate.throughput_epochs_per_s);
  return [speed, Math.log2(candidate[law.memory]), -(candidate.quality ?? 0)];
}

/**
 * Returns the priority's score of a candidate: weighted doublings of speed, halvings of memory, and quality.
 *
 * Figures that weigh less than `least` count nothing.
 */
function score(candidate, asked, law, least = 0) {
  const found = costs(candidate, asked, law);
  const given = [asked.priority.throughput, asked.priority.memory, asked.priority.accuracy];
  const weights = given.map((weight) => (weight < least ? 0 : weight));
  const qualityIsLimitAlone = weights[2] < law.min_weight && asked.least !== null;
  if (qualityIsLimitAlone) found[2] = Math.max(found[2], -asked.least);
  return -found.reduce((sum, cost, i) => sum + (weights[i] === 0 ? 0 : cost * weights[i] * law.doublings[i]), 0);
}

/** Returns whether a candidate keeps every limit; the default may have a larger one where it sets the limit itself. */
function keeps(candidate, asked, law) {
  const limits = asked.memory === "own" ? candidate.limits : limitsOf(asked.memory, law);
  if (limits.host_bytes !== null && candidate.peak_host_bytes > limits.host_bytes) return false;
  if (limits.device_bytes !== null && candidate.peak_device_bytes > limits.device_bytes) return false;
  const isOwnTarget = candidate.index === law.sets_target && !(law.target_was_asked && asked.least === law.least);
  if (asked.least === null || isOwnTarget) return true;
  if (candidate.quality === null && !law.larger_is_better) return false;
  return (candidate.quality ?? 0) >= asked.least;
}

/** Returns the seconds to the target after which nothing may be picked: the reference's, or Infinity. */
function latest(asked, law) {
  const reference = law.candidates.find((one) => one.index === law.reference);
  const mayBeLate = law.may_be_late.some((one) => samePriority(asked.priority, one));
  const isLimit = reference && asked.priority.throughput > 0 && !mayBeLate && keeps(reference, asked, law);
  return isLimit ? secondsTo(reference, asked.least, law) : Infinity;
}

/** Returns the limits that a memory of so many bytes, or null for none, sets. */
function limitsOf(bytes, law) {
  if (law.has_device) return { host_bytes: law.host_memory_limit, device_bytes: bytes };
  const given = [bytes, law.host_memory_limit].filter((one) => one !== null);
  return { host_bytes: given.length ? Math.min(...given) : null, device_bytes: null };
}

const samePriority = (one, other) =>
  ["throughput", "memory", "accuracy", "time"].every((name) => one[name] === other[name]);

/** Returns the study's own choice where it answers what is asked too, or undefined: the best of many is the best of fewer. */
function standing(kept, asked, law) {
  if (law.choice === null || !samePriority(asked.priority, law.priority)) return undefined;
  if (asked.priority.time && asked.least !== law.least) return undefined;
  const own = { priority: law.priority, least: law.least, memory: "own" };
  if (kept.some((one) => one.index !== law.choice && !keeps(one, own, law))) return undefined;
  return kept.find((one) => one.index === law.choice);
}

/**
 * Returns what is picked: {candidate, kept}, the candidate undefined where nothing keeps the limits.
 *
 * @param law The views' `law`, with its candidates.
 * @param asked {priority, least, memory}: weights, the least quality or null, and bytes, null, or "own".
 */
function pick(law, asked) {
  const until = latest(asked, law);
  const inTime = (one) => until === Infinity || secondsTo(one, asked.least, law) <= until;
  const kept = law.candidates.filter((one) => one.may_be_chosen && keeps(one, asked, law) && inTime(one));
  let candidate = standing(kept, asked, law);
  if (!candidate) {
    const scores = kept.map((one) => [score(one, asked, law, law.min_weight), score(one, asked, law)]);
    const isBetter = ([decided, all], [other, rest]) => decided > other || (decided === other && all > rest);
    candidate = kept[scores.reduce((at, own, i) => (at < 0 || isBetter(own, scores[at]) ? i : at), -1)];
  }
  return { candidate, kept };
}
