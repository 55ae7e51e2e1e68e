import type { LiveCall } from '../contracts/calls.ts'
import type { LiveWatch } from '../contracts/watch.ts'
import type { CallOf } from '../gateway/call.ts'
import type { AdmittedContext } from '../gateway/call-context.ts'
import type { Selection } from '../gateway/selection.ts'
import type { Services } from '../gateway/services.ts'
import type { LiveSink } from './messages.ts'
import type { RingMemory } from './ring.ts'
import type { LiveGrant } from './session-counts.ts'
import type { SpeechSink } from './speech-messages.ts'
import type { LiveTicker } from './ticker.ts'

/** Parts of a process that its sessions share. */
export interface LiveParts {
  readonly services: Services
  readonly memory: RingMemory
  readonly ticker: LiveTicker
  /** Absent: nobody counts. */
  readonly watch?: LiveWatch
}

/** What a session is made of when its caller is admitted. */
export interface LiveRequest {
  readonly context: AdmittedContext
  readonly call: CallOf<'transcription'> & { readonly payload: LiveCall }
  readonly selection: Selection
  readonly sink: LiveSink
  /** Resolves when the key's bucket has given a token, or rejects. */
  readonly admitted: Promise<unknown> | undefined
  /**
   * Audio that comes faster than it can be sent on is no reason to end: its sender is held back, and this is called
   * when some was sent on. Absent: nobody can be held back.
   */
  readonly held?: () => void
  /** Absent: the caller has the key itself. */
  readonly grant?: LiveGrant | undefined
}

/** What a session that speaks is made of when its caller is admitted. */
export interface SpeechRequest {
  readonly context: AdmittedContext
  /** Its input is what each sentence stands in for. */
  readonly call: CallOf<'speech'>
  readonly selection: Selection
  readonly sink: SpeechSink
  /** Resolves when the key's bucket has given a token, or rejects. */
  readonly admitted: Promise<unknown> | undefined
  /** Its protocol has no message of a caller that writes nothing for now: that it is there its connection says. */
  readonly mayBeSilent?: boolean
}
