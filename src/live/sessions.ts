import type { Principal } from '../contracts/catalog.ts'
import type { LiveSample } from '../contracts/console.ts'
import type { LiveWatch } from '../contracts/watch.ts'
import { GatewayError } from '../errors.ts'
import type { AdmittedContext } from '../gateway/call-context.ts'
import { selectEntries } from '../gateway/pipeline.ts'
import type { Selection } from '../gateway/selection.ts'
import type { Services } from '../gateway/services.ts'
import { newId } from '../ids.ts'
import { LiveClock } from './clock.ts'
import { RingMemory } from './ring.ts'
import { type LiveGrant, type LiveParts, type LiveRequest, LiveSession } from './session.ts'

/** A session as the console lists it. */
export interface OpenSession {
  /** `live_…`: ids of requests are the callers' to choose. */
  readonly id: string
  readonly context: AdmittedContext
  readonly session: LiveSession
}

/** The live sessions of this node. */
export class LiveSessions {
  readonly #parts: LiveParts
  readonly #open = new Set<OpenSession>()
  readonly #byKey = new Map<string, number>()
  readonly #byWorkspace = new Map<string, number>()
  readonly #byGrant = new Map<string, number>()
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
    if (this.#isLeaving) throw new GatewayError('OVERLOADED', 'this node is about to stop')
    const { services } = this.#parts
    const { limits } = services.snapshot()
    const { key, workspace } = context.principal
    checkCount(this.#byKey.get(key.id), 'live_max_sessions_per_key', limits.live_max_sessions_per_key)
    const most = limits.live_max_sessions_per_workspace
    checkCount(this.#byWorkspace.get(workspace.id), 'live_max_sessions_per_workspace', most)
    if (grant !== undefined) checkCount(this.#byGrant.get(grant.id), 'max_sessions', grant.maxSessions)
    return selectEntries(services, context, { mode: 'whole', call }, performance.now())
  }

  /** Opens a session, which counts until its end. It is to be started. */
  open(request: LiveRequest): LiveSession {
    const { context, sink, grant } = request
    const { principal } = context
    const session = new LiveSession(this.#parts, {
      ...request,
      sink: {
        send: (message) => sink.send(message),
        end: (error) => {
          this.#count(principal, grant, -1)
          this.#open.delete(opened)
          sink.end(error)
        },
      },
    })
    const opened = { id: newId('live'), context, session }
    this.#open.add(opened)
    this.#count(principal, grant, 1)
    return session
  }

  /** The node stops in `seconds`: no session is opened any more, and the open ones are told. */
  goAway(seconds: number): void {
    this.#isLeaving = true
    for (const { session } of this.#open) session.goAway(seconds)
  }

  #count({ key, workspace }: Principal, grant: LiveGrant | undefined, change: number): void {
    if (grant !== undefined) add(this.#byGrant, grant.id, change)
    add(this.#byKey, key.id, change)
    add(this.#byWorkspace, workspace.id, change)
  }
}

function sampleOf({ id, context, session }: OpenSession): LiveSample {
  const { principal, route } = context
  const { audio_seconds: audioSeconds, switches } = session.facts()
  return {
    id,
    workspace: principal.workspace.id,
    app: principal.app.id,
    keyId: principal.key.id,
    route,
    entry: session.entry,
    startedAtMs: Math.round(Date.now() - (performance.now() - session.startedMs)),
    audioSeconds,
    switches,
    costUsd: session.costUsd,
  }
}

function add(counts: Map<string, number>, id: string, change: number): void {
  const count = (counts.get(id) ?? 0) + change
  if (count > 0) counts.set(id, count)
  else counts.delete(id)
}

function checkCount(count: number | undefined, limit: string, most: number): void {
  if ((count ?? 0) < most) return
  const message = `at most ${most} live sessions may be open at once`
  throw new GatewayError('RATE_LIMITED', message, { details: { limit } })
}
