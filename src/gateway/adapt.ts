import type { SpeechCall, TranscriptionCall } from '../schema/calls.ts'
import type { Entry } from '../schema/catalog.ts'
import type { Calls, OperationName } from '../schema/operations.ts'
import { lackedHints, withoutHints } from './eligibility.ts'
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
  const lacked = lackedHints(entry, call.options)
  const warnings = lacked.map((hint) => `${hint}: left out, ${entry.model} does not take this hint here`)
  return { payload: { ...call, options: withoutHints(call.options, lacked) } as Calls[K], warnings }
}
