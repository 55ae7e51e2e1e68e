/** An event as a browser's EventSource would dispatch it. */
export interface ReceivedEvent {
  readonly type: string
  readonly data: string
  /** When it was complete, ms on the clock of `performance.now()`. */
  readonly atMs: number
}

/**
 * Reads `text/event-stream` by the steps of the HTML standard (9.2.6), written down anew so that it shares no
 * mistake with the gateway's own reader: an event counts only with the empty line behind it.
 */
export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ReceivedEvent, void> {
  const decoder = new TextDecoder()
  let text = ''
  let data: string[] = []
  let type = ''
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true })
    for (;;) {
      // A lone CR at the end may be half of CR LF.
      const end = /\r\n|\n|\r(?!$)/.exec(text)
      if (end === null) break
      const line = text.slice(0, end.index)
      text = text.slice(end.index + end[0].length)
      if (line === '') {
        if (data.length > 0) yield { type: type || 'message', data: data.join('\n'), atMs: performance.now() }
        data = []
        type = ''
        continue
      }
      const [field = '', value = ''] = split(line)
      if (field === 'data') data.push(value)
      else if (field === 'event') type = value
    }
  }
}

function split(line: string): [field: string, value: string] {
  const colon = line.indexOf(':')
  if (colon < 0) return [line, '']
  return [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')]
}

/** All events of a response, the JSON ones parsed; `[DONE]` stays text. */
export async function eventsOf(response: Response): Promise<(Record<string, unknown> | string)[]> {
  const events: (Record<string, unknown> | string)[] = []
  for await (const { data } of readEvents(response.body!)) {
    events.push(data.startsWith('{') ? (JSON.parse(data) as Record<string, unknown>) : data)
  }
  return events
}
