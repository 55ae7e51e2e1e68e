import type { Hint, SpeechCall, TranscriptionCall, TranscriptionOptions } from '../schema/calls.ts'
import type { Entry } from '../schema/catalog.ts'
import type { Calls, OperationName } from '../schema/operations.ts'
import type { Target } from '../schema/provider.ts'
import { unheededHints } from './features.ts'
import { voiceAt } from './speech-limits.ts'

export interface Adapted<K extends OperationName> {
  readonly payload: Calls[K]
  /** What was left out. */
  readonly warnings: readonly string[]
}

/** The payload as an entry gets it: without hints that it lacks, with its own name for the voice. */
export function adapt<K extends OperationName>(operation: K, payload: Calls[K], entry: Entry): Adapted<K> {
  if (operation === 'speech') {
    const call = payload as SpeechCall
    return { payload: { ...call, voice: voiceAt(entry, call.voice) } as Calls[K], warnings: [] }
  }
  if (operation !== 'transcription' && operation !== 'translation') return { payload, warnings: [] }
  const call = payload as TranscriptionCall
  const lacked = unheededHints(entry.facts, call.options)
  if (lacked.length === 0) return { payload, warnings: [] }
  const warnings = lacked.map((hint) => `${hint}: left out, ${entry.model} does not take this hint here`)
  return { payload: { ...call, options: withoutHints(call.options, lacked) } as Calls[K], warnings }
}

/** Where and as whom an attempt at an entry goes. */
export function targetOf({ provider, model, options }: Entry): Target {
  return { model, baseUrl: provider.baseUrl, credential: provider.credential, options }
}

/** The options as an entry gets them: hints that it lacks are taken out. */
export function withoutHints(options: TranscriptionOptions, lacked: readonly Hint[]): TranscriptionOptions {
  if (lacked.length === 0) return options
  const changed: { -readonly [Name in Hint]?: TranscriptionOptions[Name] } = {}
  for (const hint of lacked) {
    if (hint === 'language' || hint === 'prompt' || hint === 'speaker_count_hint') changed[hint] = null
    else changed[hint] = false
  }
  return { ...options, ...changed }
}
