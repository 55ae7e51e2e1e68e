/** A call as it was received, for tests to look at. */
export interface ReceivedCall {
  /** RFC 3339, when its headers came. */
  readonly time: string
  /** Of the answer, as its `x-request-id` says. */
  readonly request_id: string
  readonly method: string
  readonly path: string
  readonly traceparent: string | null
  model: string | null
  /** SHA-256 and size of the audio received; of the body where there is no audio. Null until read. */
  sha256: string | null
  bytes: number | null
  /** Form or JSON fields but the file, each cut to 200 characters. */
  fields: Readonly<Record<string, readonly string[]>>
  /** As answered; null while unanswered. */
  status: number | null
}

const CALLS_MAX = 1000

/** The last calls, oldest first. */
export class CallLog {
  readonly #calls: ReceivedCall[] = []

  add(call: ReceivedCall): void {
    this.#calls.push(call)
    if (this.#calls.length > CALLS_MAX) this.#calls.shift()
  }

  get calls(): readonly ReceivedCall[] {
    return this.#calls
  }

  clear(): void {
    this.#calls.length = 0
  }
}
