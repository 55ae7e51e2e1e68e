import type { LiveSample } from '../../contracts/console.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { newId } from '../../contracts/ids.ts'
import type { Clock, Timer } from '../../contracts/time.ts'
import type { LiveWatch } from '../../contracts/watch.ts'
import type { AdmittedContext } from '../call/context/call-context.ts'
import type { Services } from '../call/context/services.ts'
import { selectEntries } from '../call/pipeline.ts'
import { type Selection, withUnhealthy } from '../call/select/selection.ts'
import type { LiveDependencies, LiveRequest, SpeechRequest } from './dependencies.ts'
import { RingMemory } from './ring.ts'
import { LiveSession } from './session.ts'
import { type LiveGrant, SessionCounts } from './session-counts.ts'
import { SpeechSession } from './speech-session.ts'
import { LiveTicker } from './ticker.ts'

/** How often a node looks whether one of its sessions is to end. */
const ORDERS_MS = 1_000

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
  readonly #deps: LiveDependencies
  readonly #open = new Set<OpenSession>()
  readonly #counts: SessionCounts
  /** Looks for orders to end sessions; null: there are none. */
  #looking: Timer | null = null
  #isLeaving = false

  /**
   * @param memoryBytes that all sessions together may keep of audio
   * @param watch       undefined: nothing is counted
   */
  constructor(services: Services, memoryBytes: number, watch?: LiveWatch) {
    const memory = new RingMemory(memoryBytes)
    this.#counts = new SessionCounts(services.state.permits)
    this.#deps = {
      services,
      memory,
      ticker: new LiveTicker(services.clock),
      ...(watch === undefined ? {} : { watch }),
    }
  }

  get #clock(): Clock {
    return this.#deps.services.clock
  }

  get count(): number {
    return this.#open.size
  }

  /** Bytes of audio that sessions keep. */
  get heldBytes(): number {
    return this.#deps.memory.used
  }

  /** Bytes of audio that they may keep. */
  get heldBytesMax(): number {
    return this.#deps.memory.limit
  }

  find(id: string): OpenSession | null {
    return this.list().find((open) => open.id === id) ?? null
  }

  /** The sessions as the console shows them. */
  samples(): readonly LiveSample[] {
    return this.list().map((open) => sessionSample(open, this.#clock))
  }

  list(): readonly OpenSession[] {
    return [...this.#open]
  }

  /**
   * Selects the entries that may serve a session. Waits for nothing: a handshake is answered in its own turn.
   *
   * @throws GatewayError as `select`; RATE_LIMITED when the key, the workspace or the grant has as many sessions as it
   *         may; OVERLOADED when the node is about to stop
   */
  select(context: AdmittedContext, call: LiveRequest['call'], grant?: LiveGrant): Selection {
    this.#admit(context, grant)
    const selection = selectEntries(this.#deps.services, context, { mode: 'whole', call }, this.#clock.now())
    return withUnhealthy(selection, call.selectors.responseProfile)
  }

  /**
   * The same for a session that speaks. Each of its sentences is selected for again, by the health of its moment.
   *
   * @throws GatewayError as `select`
   */
  selectSpeech(context: AdmittedContext, call: SpeechRequest['call']): Selection {
    this.#admit(context)
    return selectEntries(this.#deps.services, context, { mode: 'preview', call }, this.#clock.now())
  }

  /** Opens a session, which counts until its end. It is to be started. */
  open(request: LiveRequest): LiveSession {
    const { context, sink, grant } = request
    const { admitted, left } = this.#count(context, request.admitted, grant)
    const session = new LiveSession(this.#deps, {
      ...request,
      admitted,
      sink: {
        send: (message) => sink.send(message),
        end: (error) => {
          left()
          this.#closed(opened)
          sink.end(error)
        },
      },
    })
    const opened = this.#list(context, session)
    return session
  }

  /** Opens a session that speaks, which counts until its end. It is to be started. */
  openSpeech(request: SpeechRequest): SpeechSession {
    const { admitted, left } = this.#count(request.context, request.admitted)
    const session = new SpeechSession(this.#deps, { ...request, admitted }, () => {
      left()
      this.#closed(opened)
    })
    const opened = this.#list(request.context, session)
    return session
  }

  #list(context: AdmittedContext, session: OpenSession['session']): OpenSession {
    const opened = { id: newId('live'), context, session }
    context.sessionId = opened.id
    this.#open.add(opened)
    this.#deps.services.usageKeeper?.opened(context, () => session.facts())
    this.#looking ??= this.#clock.every(ORDERS_MS, this.#carryOut).unref()
    return opened
  }

  /** The node stops in `seconds`: no session is opened any more, and the open ones are told. */
  goAway(seconds: number): void {
    this.#isLeaving = true
    for (const { session } of this.#open) session.goAway(seconds)
  }

  #closed(opened: OpenSession): void {
    this.#open.delete(opened)
    if (this.#open.size > 0 || this.#looking === null) return
    this.#looking.close()
    this.#looking = null
  }

  /** Ends sessions that an operator ends in the console of another node. */
  readonly #carryOut = async (): Promise<void> => {
    const { sessionEnds } = this.#deps.services.state.console
    try {
      for (const id of await sessionEnds.pending()) {
        const open = this.find(id)
        if (open === null) continue
        open.session.stop()
        await sessionEnds.withdraw(id)
      }
    } catch {
      // It is looked for again in a second.
    }
  }

  /**
   * Counts a session while its key's bucket is asked for a token.
   *
   * @param admitted of the request
   * @returns what the session waits for instead; `left` is called at its end
   */
  #count({ principal }: AdmittedContext, admitted: Promise<unknown> | undefined, grant?: LiveGrant) {
    const { limits } = this.#deps.services.snapshot()
    const counted = this.#counts.add(principal, limits, grant)
    const left = () =>
      void counted.then(
        (lease) => lease.release(),
        () => {},
      )
    const both = Promise.all([admitted, counted])
    // A session whose caller left may not have begun to wait for it.
    both.catch(() => {})
    return { admitted: both, left }
  }

  #admit({ principal }: AdmittedContext, grant?: LiveGrant): void {
    if (this.#isLeaving) throw new GatewayError('OVERLOADED', 'this node is about to stop')
    this.#counts.check(principal, this.#deps.services.snapshot().limits, grant)
  }
}

function sessionSample({ id, context, session }: OpenSession, clock: Clock): LiveSample {
  const { principal } = context
  const { route } = context.routing
  const { audio_seconds: audioSeconds = 0, characters, switches } = session.facts()
  return {
    id,
    workspace: principal.workspace.id,
    app: principal.app.id,
    keyId: principal.key.id,
    route,
    entry: session.entry,
    startedAtMs: Math.round(clock.wallNow() - (clock.now() - session.startedMs)),
    audioSeconds,
    ...(characters === undefined ? {} : { characters }),
    switches,
    costUsd: session.costUsd,
  }
}
