import type { AudioReader } from '../../contracts/audio.ts'
import type { Entry, Route } from '../../contracts/catalog.ts'
import { wavHeadOf } from '../../contracts/live-audio.ts'
import { CAPABILITY_OF, type OperationName } from '../../contracts/operations.ts'
import { isFor, operationOf, type Provider } from '../../contracts/provider.ts'
import { systemClock } from '../../contracts/time.ts'
import type { Failure, Send } from '../../contracts/upstream.ts'
import { runOperation } from './attempt/operation.ts'
import type { Call } from './facts/call.ts'
import { estimateOf } from './facts/meter.ts'
import { adapt, targetOf } from './select/eligibility.ts'
import { PLAIN_SAMPLE, sampleCall } from './select/sample.ts'

type Providers = ReadonlyMap<string, Provider>

/** The smallest call that proves that an entry serves. */
export interface Trial {
  readonly entry: Entry
  /** Null: this kind of entry is not tried. */
  readonly call: Call | null
  /** In words. */
  readonly what: string
  /** Foreseen bill of the provider; null: unknown. */
  readonly costUsd: number | null
}

const RATE = 16_000
const TONE_HZ = 440
const LOUDNESS = 2_000

/** A quiet tone of one second, as wav. */
const TONE = (() => {
  const samples = Int16Array.from(
    { length: RATE },
    (_, at) => LOUDNESS * Math.sin((2 * Math.PI * TONE_HZ * at) / RATE),
  )
  const bytes = Buffer.from(samples.buffer)
  return Buffer.concat([wavHeadOf({ sampleRate: RATE, channels: 1 }, bytes.length), bytes])
})()

/** Reads the audio of trials, whatever is asked for. */
export const TRIAL_AUDIO: AudioReader = {
  async *bytes() {
    yield TONE
  },
  async *base64() {
    yield Buffer.from(TONE.toString('base64'))
  },
  range: async (_audio, start, end) => TONE.subarray(start, end),
}

/** Trials in the order in which they are preferred; pictures and videos cost too much to be tried. */
const TRIALS: Readonly<Partial<Record<OperationName, string>>> = {
  transcription: 'a second of audio',
  speech: 'the word "one"',
  chat: 'an answer of 16 tokens at most',
  complete: 'an answer of 16 tokens at most',
  embeddings: 'the vector of one word',
}

/** The smallest call of each entry, once for each model of a provider. */
export function planTrials(routes: readonly Route[], providers: Providers): Trial[] {
  const plans = new Map<string, Trial>()
  for (const entry of routes.flatMap(({ entries }) => entries)) {
    const name = `${entry.provider.name}/${entry.model}`
    if (plans.has(name)) continue
    const provider = providers.get(entry.provider.kind)
    const found = Object.entries(TRIALS).find(([named]) => {
      const operation = named as OperationName
      return (
        entry.facts.capabilities.includes(CAPABILITY_OF[operation]) && isFor(entry.facts, provider, operation)
      )
    })
    if (found === undefined) {
      plans.set(name, { entry, call: null, what: 'a picture, a video or live audio', costUsd: null })
      continue
    }
    const [operation, what] = found
    const call = trialCall(operation as OperationName)
    plans.set(name, { entry, call, what, costUsd: estimateOf(entry, call).costUsd })
  }
  return [...plans.values()]
}

function trialCall(operation: OperationName): Call {
  const audio = { format: 'wav', bytes: TONE.length, seconds: 1, channels: 1 } as const
  const call = sampleCall(operation, { ...PLAIN_SAMPLE, audio, characters: 3 }) as Call
  const { payload } = call
  if ('max_tokens' in payload) return { ...call, payload: { ...payload, max_tokens: 16 } } as Call
  if (call.operation === 'speech') return { ...call, payload: { ...call.payload, input: 'one' } }
  return call
}

const TRIAL_MS = 60_000

/**
 * Makes the call at its entry, which bills it. No ledger, no budget and no breaker knows of it.
 *
 * @returns how long it took, or why there was no answer
 */
export async function makeTrial(
  { entry, call }: Trial & { readonly call: Call },
  providers: Providers,
  send: Send,
): Promise<{ readonly milliseconds: number } | { readonly failure: Failure }> {
  const operation = operationOf(providers.get(entry.provider.kind), call.operation)
  if (operation === undefined) throw new Error(`${entry.provider.kind} has no ${call.operation}`)
  const startMs = systemClock.now()
  const ended = await runOperation(
    operation,
    adapt(call, entry, operation).payload as never,
    targetOf(entry),
    {
      send,
      clock: systemClock,
      signal: new AbortController().signal,
      traceContext: undefined,
      deadlineAtMs: startMs + TRIAL_MS,
      memory: { held: () => 0, charge() {}, release() {}, turn: () => null },
      checkpoint: null,
    },
  )
  return 'result' in ended
    ? { milliseconds: Math.round(systemClock.now() - startMs) }
    : { failure: ended.failure }
}
