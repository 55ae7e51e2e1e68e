import type { LiveCall } from '../../contracts/calls.ts'
import type { LiveWatch } from '../../contracts/watch.ts'
import type { AdmittedContext } from '../call/context/call-context.ts'
import type { Services } from '../call/context/services.ts'
import type { CallOf } from '../call/facts/call.ts'
import type { Selection } from '../call/select/selection.ts'
import type { LiveSink } from './messages.ts'
import type { RingMemory } from './ring.ts'
import type { LiveGrant } from './session-counts.ts'
import type { SpeechSink } from './speech-messages.ts'
import type { LiveTicker } from './ticker.ts'

/** Parts of a process that its sessions share. */
export interface LiveDependencies {
  readonly services: Services
  readonly memory: RingMemory
  readonly ticker: LiveTicker
  /** Absent: nothing is counted. */
  readonly watch?: LiveWatch
}

/** Parts of one session, when its caller is admitted. */
export interface LiveRequest {
  readonly context: AdmittedContext
  readonly call: CallOf<'transcription'> & { readonly payload: LiveCall }
  readonly selection: Selection
  readonly sink: LiveSink
  /** Resolves when the key's bucket has given a token, or rejects. */
  readonly admitted: Promise<unknown> | undefined
  /**
   * Holds the sender back instead of failing when audio comes faster than it can be sent on: called when some was sent
   * on. Absent: the sender cannot be held back.
   */
  readonly held?: () => void
  /** Absent: the caller has the key itself. */
  readonly grant?: LiveGrant | undefined
}

/** Parts of one session that speaks, when its caller is admitted. */
export interface SpeechRequest {
  readonly context: AdmittedContext
  /** Each sentence replaces its input. */
  readonly call: CallOf<'speech'>
  readonly selection: Selection
  readonly sink: SpeechSink
  /** Resolves when the key's bucket has given a token, or rejects. */
  readonly admitted: Promise<unknown> | undefined
  /** The protocol has no keep-alive; an open connection counts as one. */
  readonly mayBeSilent?: boolean
}
