import type { TranscriptionOptions, TranscriptionResult } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { StreamReader } from '../../../contracts/provider.ts'
import type { Failure, UpstreamStream } from '../../../contracts/upstream.ts'
import { brokenOff } from '../answer.ts'
import { JsonEvents } from '../json-events.ts'
import { wholeTranscript } from '../transcript-needs.ts'
import { readTranscript } from './transcript.ts'

/**
 * `transcript.text.delta` and, from the diarizing model, `transcript.text.segment`, until
 * `transcript.text.done`, which holds the whole text. Without it the answer was cut.
 */
export class TranscriptStreamReader implements StreamReader<TranscriptionResult, string> {
  readonly #head: Pick<UpstreamStream, 'status' | 'headers'>
  readonly #options: TranscriptionOptions
  readonly #warnings: readonly string[]
  readonly #events: JsonEvents
  readonly #segments: JsonObject[] = []
  #done: JsonObject | null = null

  /** @param warnings of what was left out of the request */
  constructor(
    head: Pick<UpstreamStream, 'status' | 'headers'>,
    options: TranscriptionOptions,
    warnings: readonly string[],
  ) {
    this.#warnings = warnings
    this.#head = head
    this.#options = options
    this.#events = new JsonEvents(head)
  }

  push(chunk: Uint8Array): readonly string[] | Failure {
    const events = this.#events.push(chunk)
    return Array.isArray(events) ? events.flatMap((event) => this.#read(event)) : events
  }

  end(): { readonly result: TranscriptionResult } | Failure {
    if (this.#done === null) return brokenOff(this.#head)
    const body = { ...this.#done, segments: this.#segments }
    const read = readTranscript(body, this.#options, this.#warnings)
    return wholeTranscript(read, this.#options, this.#head)
  }

  #read(event: JsonObject): string[] {
    if (event.type === 'transcript.text.segment') this.#segments.push(event)
    if (event.type === 'transcript.text.done') this.#done = event
    const { delta } = event
    return event.type === 'transcript.text.delta' && typeof delta === 'string' && delta !== '' ? [delta] : []
  }
}
