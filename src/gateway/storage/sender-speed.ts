/** An uploading sender below this gives its permit to one that waits for it. */
const CRAWL_BYTES_PER_SECOND = 8_000

/** Samples kept per window: the window slides in steps of an eighth. */
const STEPS = 8

/** Mean speed over a sliding window, from totals that are sampled now and then. */
class SpeedWindow {
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

  reset(): void {
    this.#samples.length = 0
  }
}

/** How fast the sender of one body is, by a short window and, while it uploads, by a long one. */
export class SenderSpeed {
  readonly #short: SpeedWindow
  readonly #long: SpeedWindow
  #rate: number | null = null

  constructor({
    slowWindowMs,
    crawlWindowMs,
  }: { readonly slowWindowMs: number; readonly crawlWindowMs: number }) {
    this.#short = new SpeedWindow(slowWindowMs)
    this.#long = new SpeedWindow(crawlWindowMs)
  }

  /** Bytes per second lately; null: it is too early to tell. */
  get rate(): number | null {
    return this.#rate
  }

  sample(nowMs: number, receivedBytes: number): void {
    this.#rate = this.#short.sample(nowMs, receivedBytes)
  }

  /** Samples an upload. @returns whether it has been next to nothing for the whole long window */
  crawls(nowMs: number, receivedBytes: number): boolean {
    const speed = this.#long.sample(nowMs, receivedBytes)
    return speed !== null && speed < CRAWL_BYTES_PER_SECOND
  }

  /** Forgets the samples: this side has held the sender up. */
  reset(): void {
    this.#short.reset()
    this.#long.reset()
    this.#rate = null
  }

  /** Measures anew, since the body goes somewhere else from now on. */
  restart(): void {
    this.#short.reset()
    this.#rate = null
  }

  /** Tells no rate before the next sample. */
  forgetRate(): void {
    this.#rate = null
  }
}
