const NEVER = new AbortController().signal

/** As much of an exchange as is counted and recorded, with the callbacks that every exchange has. */
export class Exchange {
  readonly requestId: string
  readonly method = 'POST'
  readonly signal = NEVER
  readonly pattern: string
  readonly bodyMs = 0
  readonly firstByteMs = null
  readonly receivedBytes = 100
  readonly sentBytes = 500
  status: number | null = null
  readonly #startedMs = performance.now()
  readonly #callbacks: (() => void)[] = []

  constructor(pattern: string, requestId = 'req_01hzzzzzzzzzzzzzzzzzzzzzzz') {
    this.requestId = requestId
    this.pattern = pattern
  }

  get elapsedMs(): number {
    return performance.now() - this.#startedMs
  }

  onFinished(callback: () => void): void {
    this.#callbacks.push(callback)
  }

  finish(status: number): void {
    this.status = status
    for (const callback of this.#callbacks) callback()
  }
}
