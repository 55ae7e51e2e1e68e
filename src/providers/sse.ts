/** One event of a `text/event-stream`. */
export interface SseEvent {
  /** `message` unless the stream names it. */
  readonly event: string
  readonly data: string
}

/** Longest event that is put together, UTF-16 units: whoever sends more is not speaking the protocol. */
const EVENT_MAX_LENGTH = 64 * 1024 * 1024

/**
 * Reads a `text/event-stream` chunk by chunk, cut anywhere, inside a character too. As the HTML standard has it: lines
 * end with LF, CR LF or CR, comments and unknown fields are skipped, an event ends with an empty line; what follows the
 * last empty line is no event.
 */
export class SseParser {
  readonly #decoder = new TextDecoder()
  #rest = ''
  #event = ''
  #data: string[] = []

  /** @throws RangeError when an event has no end in sight */
  push(chunk: Uint8Array): SseEvent[] {
    const text = this.#rest + this.#decoder.decode(chunk, { stream: true })
    const events: SseEvent[] = []
    let start = 0
    for (;;) {
      const end = lineEnd(text, start)
      if (end === null) break
      this.#line(text.slice(start, end.at), events)
      start = end.next
    }
    this.#rest = text.slice(start)
    if (this.#rest.length > EVENT_MAX_LENGTH) throw new RangeError('an event of the stream has no end')
    return events
  }

  #line(line: string, events: SseEvent[]): void {
    if (line === '') {
      if (this.#data.length > 0) events.push({ event: this.#event || 'message', data: this.#data.join('\n') })
      this.#event = ''
      this.#data = []
      return
    }
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#event = value
  }
}

/** Where the line that begins at `start` ends, and where the next one begins; null when its end is not here yet. */
function lineEnd(text: string, start: number): { readonly at: number; readonly next: number } | null {
  const feed = text.indexOf('\n', start)
  const carriage = text.indexOf('\r', start)
  if (carriage >= 0 && (feed < 0 || carriage < feed)) {
    // A CR at the very end may be the first half of CR LF.
    if (carriage === text.length - 1) return null
    return { at: carriage, next: text[carriage + 1] === '\n' ? carriage + 2 : carriage + 1 }
  }
  return feed < 0 ? null : { at: feed, next: feed + 1 }
}
