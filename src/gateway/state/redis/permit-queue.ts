import type { PermitLease, PermitLimit } from '../../../contracts/permits.ts'
import type { Clock, Timer } from '../../../contracts/time.ts'

/** How often a node looks whether one of its calls has got a permit, while calls come and after they stopped coming. */
const LOOK_MS = { least: 20, most: 250 }

/** A call that waits on this node. */
export interface Waiting {
  readonly workspace: string
  /** Its permit may be kept for another call afterwards. */
  readonly mayKeep: boolean
  /** Called once, when it waits no more. */
  readonly end: (lease: PermitLease | null) => void
}

/** The waiting calls of a workspace, and their places in the order of all nodes, which are as many. */
interface Line {
  readonly waiting: Set<Waiting>
  readonly places: string[]
}

/**
 * The calls that wait on this node for a permit of one name. Their places in the order of all nodes are tokens, and
 * belong to the workspace: a permit goes to the first that waits at that moment, and a call that leaves gives up the
 * last place. So none is lost because the one that took it has just left, however long Redis takes to say that it was
 * served.
 */
export class PermitQueue {
  limit: PermitLimit
  /** Redis may not know all of them. */
  isAstray = false
  /** When the last one came. */
  #newestMs = 0
  readonly #clock: Clock
  #timer: Timer | null = null
  /** By workspace, in the order in which this node serves them itself. */
  readonly #lines = new Map<string, Line>()
  /** Place → its workspace. */
  readonly #places = new Map<string, string>()

  constructor(limit: PermitLimit, clock: Clock) {
    this.limit = limit
    this.#clock = clock
  }

  get size(): number {
    return this.#places.size
  }

  /** Places and their workspaces, as Redis is told of them. */
  get places(): readonly (readonly [place: string, workspace: string])[] {
    return [...this.#places]
  }

  add(waiting: Waiting, place: string): void {
    const { workspace } = waiting
    this.#newestMs = this.#clock.now()
    const line = this.#lines.get(workspace) ?? { waiting: new Set(), places: [] }
    line.waiting.add(waiting)
    line.places.push(place)
    this.#lines.set(workspace, line)
    this.#places.set(place, workspace)
  }

  /** The call that gets the permit that Redis has given to a place; null: no call has that place any more. */
  serve(place: string): Waiting | null {
    const line = this.#lines.get(this.#places.get(place) ?? '')
    if (line === undefined) return null
    line.places.splice(line.places.indexOf(place), 1)
    return this.#first(line, place)
  }

  /** Whoever gets a permit that this node gives, workspaces in turn, and the place that is given up for it. */
  next(): { readonly waiting: Waiting; readonly place: string } | null {
    for (const [workspace, line] of this.#lines) {
      const place = line.places.pop() as string
      const waiting = this.#first(line, place)
      // Its turn comes again when all others have had theirs.
      if (this.#lines.delete(workspace)) this.#lines.set(workspace, line)
      return { waiting, place }
    }
    return null
  }

  /** One leaves. @returns the place that is given up */
  leave(waiting: Waiting): string {
    const { workspace } = waiting
    const line = this.#lines.get(workspace) as Line
    const place = line.places.pop() as string
    this.#remove(waiting, line, place)
    return place
  }

  /** Whether Redis will be asked who is served: a call waits that it did not serve at once. */
  get isLooking(): boolean {
    return this.#timer !== null
  }

  /** Has it asked after a while, as long as a call waits. */
  lookAgain(look: (queue: PermitQueue) => Promise<void>): void {
    if (this.size === 0 || this.#timer !== null) return
    const ageMs = this.#clock.now() - this.#newestMs
    const afterMs = Math.min(Math.max(ageMs / 10, LOOK_MS.least), LOOK_MS.most)
    this.#timer = this.#clock.after(afterMs, () => {
      this.#timer = null
      void look(this)
    })
  }

  stopLooking(): void {
    this.#timer?.close()
    this.#timer = null
  }

  #first(line: Line, place: string): Waiting {
    // There is one: a line has as many who wait as it has places.
    const waiting = line.waiting.values().next().value as Waiting
    this.#remove(waiting, line, place)
    return waiting
  }

  #remove(waiting: Waiting, line: Line, place: string): void {
    line.waiting.delete(waiting)
    this.#places.delete(place)
    if (line.waiting.size === 0) this.#lines.delete(waiting.workspace)
  }
}

/** The queues of a node, by the name of their permits; each is there while a call waits in it. */
export class PermitQueues {
  readonly #clock: Clock
  readonly #queues = new Map<string, PermitQueue>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get(name: string): PermitQueue | undefined {
    return this.#queues.get(name)
  }

  /** The queue of a limit, which may have changed since the last call came. */
  of(limit: PermitLimit): PermitQueue {
    const queue = this.#queues.get(limit.name) ?? new PermitQueue(limit, this.#clock)
    queue.limit = limit
    this.#queues.set(limit.name, queue)
    return queue
  }

  close(name: string, queue: PermitQueue): void {
    queue.stopLooking()
    if (this.#queues.get(name) === queue) this.#queues.delete(name)
  }

  closeAll(): void {
    for (const [name, queue] of this.#queues) this.close(name, queue)
  }
}
