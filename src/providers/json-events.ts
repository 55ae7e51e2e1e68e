import type { JsonObject } from '../schema/json.ts'
import type { Failure, UpstreamStream } from '../schema/upstream.ts'
import { errorInside } from './answer.ts'
import { unusable } from './failure.ts'
import { asObject } from './json.ts'
import { SseParser } from './sse.ts'

/** The JSON events of a streamed answer, up to `data: [DONE]` where the provider sends one, as OpenAI does. */
export class JsonEvents {
  readonly #head: Pick<UpstreamStream, 'status' | 'headers'>
  readonly #parser = new SseParser()
  #done = false

  constructor(head: Pick<UpstreamStream, 'status' | 'headers'>) {
    this.#head = head
  }

  /** `[DONE]` has come; what follows it is not looked at. */
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
      const event = data === null ? null : parse(data)
      if (event === null) return unusable(this.#head, 'the stream of the provider cannot be read')
      const failure = errorInside(event, this.#head)
      if (failure !== null) return failure
      events.push(event)
    }
    return events
  }

  #dataOf(chunk: Uint8Array): string[] | null {
    try {
      return this.#parser
        .push(chunk)
        .map(({ data }) => data.trim())
        .filter((data) => data !== '')
    } catch (error) {
      if (error instanceof RangeError) return null
      throw error
    }
  }
}

function parse(data: string): JsonObject | null {
  try {
    return asObject(JSON.parse(data))
  } catch {
    return null
  }
}
