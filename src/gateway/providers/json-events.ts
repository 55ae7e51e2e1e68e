import type { JsonObject } from '../../contracts/json.ts'
import type { Failure, UpstreamStream } from '../../contracts/upstream.ts'
import { errorInside } from './answer.ts'
import { unusable } from './failure.ts'
import { parseObject } from './json.ts'
import { SseParser } from './sse.ts'

/** The JSON events of a streamed answer, up to `data: [DONE]` where the provider sends one, as OpenAI does. */
export class JsonEvents {
  readonly #head: Pick<UpstreamStream, 'status' | 'headers'>
  readonly #isLast: (event: JsonObject) => boolean
  readonly #parser = new SseParser()
  #done = false

  /** @param isLast tells the event that ends the answer, for a provider that does not send `[DONE]` */
  constructor(
    head: Pick<UpstreamStream, 'status' | 'headers'>,
    isLast: (event: JsonObject) => boolean = () => false,
  ) {
    this.#head = head
    this.#isLast = isLast
  }

  /** The end of the answer has come; what follows it is not looked at. */
  get done(): boolean {
    return this.#done
  }

  /** The events that `chunk` completes, or the error that one of them holds. */
  push(chunk: Uint8Array): JsonObject[] | Failure {
    const events: JsonObject[] = []
    for (const data of this.#dataOf(chunk) ?? [null]) {
      if (this.#done) break
      if (data === '[DONE]') {
        this.#done = true
        break
      }
      const event = data === null ? null : parseObject(data)
      if (event === null) return unusable(this.#head, 'the stream of the provider cannot be read')
      const failure = errorInside(event, this.#head)
      if (failure !== null) return failure
      events.push(event)
      this.#done = this.#isLast(event)
    }
    return events
  }

  /** Null when the stream is none of events. */
  #dataOf(chunk: Uint8Array): string[] | null {
    try {
      return this.#parser
        .push(chunk)
        .map((data) => data.trim())
        .filter((data) => data !== '')
    } catch (error) {
      if (error instanceof RangeError) return null
      throw error
    }
  }
}
