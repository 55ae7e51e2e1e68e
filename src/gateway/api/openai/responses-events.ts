import type { ChatDelta } from '../../../contracts/chat.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { Envelope, Outcome } from '../../call/attempt/outcome.ts'
import type { Streaming } from '../../call/attempt/stream.ts'
import type { EventStream } from '../sse.ts'
import { secondsNow } from './door.ts'
import {
  callItem,
  callItemId,
  endedResponse,
  itemsOf,
  logprobTokens,
  messageId,
  messageItem,
  type Place,
  responseOf,
  textPart,
} from './responses-answer.ts'
import type { ResponseFields } from './responses-request.ts'

/**
 * The events of a streamed response. Items begin in the order in which they appear, and all of them end when the answer
 * does: the whole texts that their last events repeat are then there anyway, and need not be gathered here too.
 */
export function responseEvents(
  { head }: Pick<Streaming<'chat'>, 'head'>,
  fields: ResponseFields,
  clock: Clock,
) {
  const created = secondsNow(clock)
  const items = new StreamedItems(head.id)
  const begun = responseOf(head, fields, created)
  return {
    opening: [
      items.numbered({ type: 'response.created', response: begun }),
      items.numbered({ type: 'response.in_progress', response: begun }),
    ],
    event: (delta) => items.push(delta),
    done: (outcome) => items.end(outcome, fields, { created, completed: secondsNow(clock) }),
    // In OpenAI's order: its client throws at the first, the AI SDK takes the second for the same failure.
    failed: ({ error }) => {
      const { code, message, param } = error
      // The codes of a failed response are OpenAI's own.
      const response = { ...begun, status: 'failed', error: { code: 'server_error', message } }
      return [
        items.numbered({ type: 'error', code, message, param, error }),
        items.numbered({ type: 'response.failed', response }),
      ]
    },
  } satisfies Pick<EventStream<ChatDelta>, 'opening' | 'event' | 'failed'> & {
    done(outcome: Outcome<'chat'>): readonly object[]
  }
}

/** Items of an answer while it comes. */
class StreamedItems {
  readonly #id: Envelope['id']
  /** In the order in which they appeared: the place of each in the output. */
  readonly #places: Place[] = []
  readonly #outputIndexes = new Map<Place, number>()
  #sequence = 0

  constructor(id: Envelope['id']) {
    this.#id = id
  }

  numbered<Event extends { readonly type: string }>(event: Event) {
    const numbered = { ...event, sequence_number: this.#sequence }
    this.#sequence += 1
    return numbered
  }

  push(delta: ChatDelta): readonly object[] {
    switch (delta.type) {
      case 'text': {
        const begun = this.#beginMessage()
        const at = { ...this.#at('message'), content_index: 0 }
        const event = {
          type: 'response.output_text.delta',
          ...at,
          delta: delta.text,
          logprobs: logprobTokens(delta),
        }
        return [...begun, this.numbered(event)]
      }
      case 'tool_call': {
        const { index, id, name, arguments: given } = delta
        const begun = this.#beginCall(index, id ?? '', name ?? '')
        if (given === '') return begun
        const event = { type: 'response.function_call_arguments.delta', ...this.#at(index), delta: given }
        return [...begun, this.numbered(event)]
      }
      // Speech cannot be asked for here.
      case 'audio':
        return []
    }
  }

  /** The events after the last delta. */
  end(
    outcome: Outcome<'chat'>,
    fields: ResponseFields,
    times: Parameters<typeof endedResponse>[2],
  ): readonly object[] {
    const { content, tool_calls: calls } = outcome.result
    const late = content !== '' || calls.length === 0 ? this.#beginMessage() : []
    const lateCalls = calls.flatMap(({ id, name }, index) => this.#beginCall(index, id, name))
    const output = itemsOf(this.#id, outcome.result, this.#places)
    const ended = this.#places.flatMap((place, index) => this.#endOf(place, output[index]))
    const response = endedResponse(outcome, fields, times, output)
    return [...late, ...lateCalls, ...ended, this.numbered({ type: `response.${response.status}`, response })]
  }

  #beginMessage(): readonly object[] {
    if (!this.#begin('message')) return []
    const item = messageItem(this.#id, 'in_progress', [])
    const at = this.#at('message')
    const { output_index } = at
    return [
      this.numbered({ type: 'response.output_item.added', output_index, item }),
      this.numbered({ type: 'response.content_part.added', ...at, content_index: 0, part: textPart('') }),
    ]
  }

  #beginCall(index: number, id: string, name: string): readonly object[] {
    if (!this.#begin(index)) return []
    const item = callItem(this.#id, index, { id, name, arguments: '' }, 'in_progress')
    const { output_index } = this.#at(index)
    return [this.numbered({ type: 'response.output_item.added', output_index, item })]
  }

  /** @returns false when it has begun before */
  #begin(place: Place): boolean {
    if (this.#outputIndexes.has(place)) return false
    this.#outputIndexes.set(place, this.#places.length)
    this.#places.push(place)
    return true
  }

  #at(place: Place) {
    const id = place === 'message' ? messageId(this.#id) : callItemId(this.#id, place)
    return { item_id: id, output_index: this.#outputIndexes.get(place) ?? 0 }
  }

  #endOf(place: Place, item: ReturnType<typeof itemsOf>[number] | undefined): readonly object[] {
    if (item === undefined) return []
    const at = this.#at(place)
    const { output_index } = at
    const done = { type: 'response.output_item.done', output_index, item }
    if (item.type === 'function_call') {
      const { name, arguments: given } = item
      const type = 'response.function_call_arguments.done'
      return [this.numbered({ type, ...at, name, arguments: given }), this.numbered(done)]
    }
    const [part] = item.content
    const inPart = { ...at, content_index: 0 }
    return [
      this.numbered({
        type: 'response.output_text.done',
        ...inPart,
        text: part?.text ?? '',
        logprobs: part?.logprobs ?? [],
      }),
      this.numbered({ type: 'response.content_part.done', ...inPart, part }),
      this.numbered(done),
    ]
  }
}
