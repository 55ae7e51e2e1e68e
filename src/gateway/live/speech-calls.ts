import { Cancellation } from '../../contracts/cancellation.ts'
import type { GatewayError } from '../../contracts/errors.ts'
import type { Streaming } from '../call/attempt/stream.ts'
import type { AdmittedContext } from '../call/context/call-context.ts'
import type { CallMoney } from '../call/context/call-money.ts'
import type { Services } from '../call/context/services.ts'
import { microsOf, usdOf } from '../call/facts/price.ts'
import { run } from '../call/pipeline.ts'
import type { Candidate } from '../call/select/selection.ts'
import type { SpeechRequest } from './dependencies.ts'
import { SpeechLines } from './speech-lines.ts'

/** Attempts of all sentences that are kept for the session's end. */
const ATTEMPTS_MAX = 100

/** A call of the pipeline for one sentence. */
export interface SentenceCall {
  readonly context: AdmittedContext
  readonly cancel: Cancellation
  readonly streaming: Promise<Streaming<'speech'>>
  readonly askedMs: number
  /** When its first audio was here; null: it is not yet. */
  heardMs: number | null
}

/** Charges of a session that speaks, in wire names. */
export interface SpeechSpent {
  readonly audio_output_characters: number
  /** Null: a price is not known. */
  readonly cost_usd: number | null
}

/** The calls of a session, one for each sentence, and the sum of their money. */
export class SpeechCalls {
  readonly #services: Services
  readonly #request: SpeechRequest
  /** Connections to providers that speak over a WebSocket. */
  readonly #lines = new SpeechLines()
  /** Calls whose cost is not in the sum yet. */
  readonly #running = new Set<SentenceCall>()
  #characters = 0
  #micros: number | null = 0

  constructor(services: Services, request: SpeechRequest) {
    this.#services = services
    this.#request = request
  }

  /** Asks for a sentence, at the entries that have not failed it. @param failed as `entryName` names them */
  ask(text: string, failed: ReadonlySet<string>): SentenceCall {
    const { context: session, call } = this.#request
    const cancel = new Cancellation()
    const context = session.within(cancel)
    const streaming = run(this.#services, context, {
      mode: 'streamed',
      call: { ...call, payload: { ...call.payload, input: text } },
      open: this.#lines.open,
      ...(failed.size > 0 && {
        leaveOut: ({ entry }: Candidate) => failed.has(entryName(entry.provider.name, entry.model)),
      }),
    })
    const asked: SentenceCall = {
      context,
      cancel,
      streaming,
      askedMs: this.#services.clock.now(),
      heardMs: null,
    }
    const heard = () => {
      asked.heardMs = this.#services.clock.now()
    }
    void streaming.then(heard, () => {})
    this.#running.add(asked)
    return asked
  }

  /** Seconds from the question to the first audio. */
  secondsOf({ askedMs, heardMs }: SentenceCall): number {
    return ((heardMs ?? this.#services.clock.now()) - askedMs) / 1000
  }

  /** A call is over: its cost goes into the sum, once. */
  settle(call: SentenceCall): void {
    if (!this.#running.delete(call)) return
    const { characters, micros } = spentOf(call.context.money)
    this.#characters += characters
    this.#micros = this.#micros === null || micros === null ? null : this.#micros + micros
    const { attempts } = this.#request.context.routing
    attempts.push(...call.context.routing.attempts.slice(0, ATTEMPTS_MAX - attempts.length))
  }

  /** Ends a call at its provider; its cost up to here is in the sum. */
  leave(call: SentenceCall, reason: GatewayError): void {
    this.settle(call)
    call.cancel.abort(reason)
    const left = call.streaming.then(({ deltas }) => deltas.return()).catch(() => {})
    void this.#services.settlements.during(left)
  }

  /** Ends all calls and connections. */
  close(reason: GatewayError): void {
    for (const call of [...this.#running]) this.leave(call, reason)
    this.#lines.close()
  }

  /** All that was sent to providers, also attempts without a known end. */
  spent(): SpeechSpent {
    let characters = this.#characters
    let micros = this.#micros
    for (const { context } of this.#running) {
      const spent = spentOf(context.money)
      characters += spent.characters
      micros = micros === null || spent.micros === null ? null : micros + spent.micros
    }
    return { audio_output_characters: characters, cost_usd: micros === null ? null : usdOf(micros) }
  }
}

export function entryName(provider: string, model: string): string {
  return `${provider}\n${model}`
}

/** The charge for a call, or the one to come. */
function spentOf({ spent }: CallMoney) {
  if (spent === null) return { characters: 0, micros: 0 }
  const { audio_output_characters: characters } = spent.usage
  return { characters: characters ?? 0, micros: spent.costUsd === null ? null : microsOf(spent.costUsd) }
}
