/** Samples kept per window: the window slides in steps of an eighth. */
const STEPS = 8

/** Mean speed over a sliding window, from totals that are sampled now and then. */
export class SpeedWindow {
  readonly #spanMs: number
  readonly #samples: { readonly atMs: number; readonly bytes: number }[] = []

  constructor(spanMs: number) {
    this.#spanMs = spanMs
  }

  /** Bytes per second over the last `spanMs`; null while the window is not that long. */
  sample(nowMs: number, totalBytes: number): number | null {
    const samples = this.#samples
    const last = samples.at(-1)
    if (last === undefined || nowMs - last.atMs >= this.#spanMs / STEPS) {
      samples.push({ atMs: nowMs, bytes: totalBytes })
    }
    while (samples.length > 1 && nowMs - samples[1]!.atMs >= this.#spanMs) samples.shift()
    const first = samples[0]!
    const elapsedMs = nowMs - first.atMs
    return elapsedMs < this.#spanMs ? null : ((totalBytes - first.bytes) * 1000) / elapsedMs
  }

  /** Forgets what was seen: the sender was held up by us. */
  reset(): void {
    this.#samples.length = 0
  }
}
