import type { LiveSample } from '../contracts/console.ts'
import type { LiveWatch } from '../contracts/watch.ts'
import { GatewayError } from '../errors.ts'
import type { AdmittedContext } from '../gateway/call-context.ts'
import { selectEntries } from '../gateway/pipeline.ts'
import type { Selection } from '../gateway/selection.ts'
import type { Services } from '../gateway/services.ts'
import { newId } from '../ids.ts'
import { LiveClock } from './clock.ts'
import type { LiveParts, LiveRequest, SpeechRequest } from './parts.ts'
import { RingMemory } from './ring.ts'
import { LiveSession } from './session.ts'
import { type LiveGrant, SessionCounts } from './session-counts.ts'
import { SpeechSession } from './speech-session.ts'

/** A session as the console lists it. */
export interface OpenSession {
  /** `live_…`: ids of requests are the callers' to choose. */
  readonly id: string
  readonly context: AdmittedContext
  readonly session: Pick<
    LiveSession | SpeechSession,
    'startedMs' | 'entry' | 'costUsd' | 'facts' | 'stop' | 'goAway'
  >
}

/** The live sessions of this node. */
export class LiveSessions {
  readonly #parts: LiveParts
  readonly #open = new Set<OpenSession>()
  readonly #counts = new SessionCounts()
  #isLeaving = false

  /**
   * @param memoryBytes that all sessions together may keep of audio
   * @param watch       undefined: nobody counts
   */
  constructor(services: Services, memoryBytes: number, watch?: LiveWatch) {
    const memory = new RingMemory(memoryBytes)
    this.#parts = { services, memory, clock: new LiveClock(), ...(watch === undefined ? {} : { watch }) }
  }

  get count(): number {
    return this.#open.size
  }

  /** Bytes of audio that sessions keep. */
  get heldBytes(): number {
    return this.#parts.memory.used
  }

  /** Bytes of audio that they may keep. */
  get heldBytesMax(): number {
    return this.#parts.memory.limit
  }

  find(id: string): OpenSession | null {
    return this.list().find((open) => open.id === id) ?? null
  }

  /** What the console shows of them. */
  samples(): readonly LiveSample[] {
    return this.list().map(sampleOf)
  }

  list(): readonly OpenSession[] {
    return [...this.#open]
  }

  /**
   * Selects the entries that may serve a session. Asks nobody: a handshake is answered in its own turn.
   *
   * @throws GatewayError as `select`; RATE_LIMITED when the key, the workspace or the grant has as many sessions as it
   *         may; OVERLOADED when the node is about to stop
   */
  select(context: AdmittedContext, call: LiveRequest['call'], grant?: LiveGrant): Selection {
    this.#admit(context, grant)
    return selectEntries(this.#parts.services, context, { mode: 'whole', call }, performance.now())
  }

  /**
   * The same for a session that speaks. Each of its sentences is selected for again, by the health of its moment.
   *
   * @throws GatewayError as `select`
   */
  selectSpeech(context: AdmittedContext, call: SpeechRequest['call']): Selection {
    this.#admit(context)
    return selectEntries(this.#parts.services, context, { mode: 'preview', call }, performance.now())
  }

  /** Opens a session, which counts until its end. It is to be started. */
  open(request: LiveRequest): LiveSession {
    const { context, sink, grant } = request
    const left = this.#counts.add(context.principal, grant)
    const session = new LiveSession(this.#parts, {
      ...request,
      sink: {
        send: (message) => sink.send(message),
        end: (error) => {
          left()
          this.#open.delete(opened)
          sink.end(error)
        },
      },
    })
    const opened = this.#list(context, session)
    return session
  }

  /** Opens a session that speaks, which counts until its end. It is to be started. */
  openSpeech(request: SpeechRequest): SpeechSession {
    const left = this.#counts.add(request.context.principal)
    const session = new SpeechSession(this.#parts, request, () => {
      left()
      this.#open.delete(opened)
    })
    const opened = this.#list(request.context, session)
    return session
  }

  #list(context: AdmittedContext, session: OpenSession['session']): OpenSession {
    const opened = { id: newId('live'), context, session }
    this.#open.add(opened)
    return opened
  }

  /** The node stops in `seconds`: no session is opened any more, and the open ones are told. */
  goAway(seconds: number): void {
    this.#isLeaving = true
    for (const { session } of this.#open) session.goAway(seconds)
  }

  #admit({ principal }: AdmittedContext, grant?: LiveGrant): void {
    if (this.#isLeaving) throw new GatewayError('OVERLOADED', 'this node is about to stop')
    this.#counts.check(principal, this.#parts.services.snapshot().limits, grant)
  }
}

function sampleOf({ id, context, session }: OpenSession): LiveSample {
  const { principal, route } = context
  const { audio_seconds: audioSeconds = 0, characters, switches } = session.facts()
  return {
    id,
    workspace: principal.workspace.id,
    app: principal.app.id,
    keyId: principal.key.id,
    route,
    entry: session.entry,
    startedAtMs: Math.round(Date.now() - (performance.now() - session.startedMs)),
    audioSeconds,
    ...(characters === undefined ? {} : { characters }),
    switches,
    costUsd: session.costUsd,
  }
}
