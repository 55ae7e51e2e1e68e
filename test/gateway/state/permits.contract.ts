import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { PermitLease, Permits, PermitsTaken } from '../../../src/contracts/permits.ts'
import { waitUntil } from '../../support/wait-until.ts'

const LONG_MS = 60_000
const NEVER = new Cancellation()
let names = 0

/** A name that no other test has. */
export function newName(): string {
  names += 1
  return `test:${process.pid}:${names}`
}

export function leaseOf(taken: PermitsTaken): PermitLease {
  if ('full' in taken) throw new Error(`no permit of ${taken.full.name} is left`)
  return taken.lease
}

/** Rounds in which a node was without what it shares, on a busy machine, are repeated so often. */
const ROUNDS_MAX = 20

/**
 * What permits keep, wherever they are counted.
 *
 * @param start the nodes that share them, none of which counts alone
 * @param went  how often any of these began to count alone, because what they share did not answer in time
 */
export function permitsContract(
  t: Test,
  start: (t: Test) => Promise<readonly Permits[]>,
  went = () => 0,
): void {
  t.test('no more than there are, until one is given back', async (t) => {
    const round = async () => {
      const before = went()
      const nodes = await start(t)
      const limit = { name: newName(), most: 5 }
      const asked = Array.from({ length: 40 }, (_, i) => nodes[i % nodes.length]!.take([limit]))
      return { nodes, limit, takes: await Promise.all(asked), isShared: went() === before }
    }
    let last = await round()
    for (let rounds = 1; !last.isShared && rounds < ROUNDS_MAX; rounds += 1) last = await round()
    const { nodes, limit, takes } = last
    const taken = takes.filter((one) => 'lease' in one)
    t.equal(taken.length, 5)
    for (const one of takes) if ('full' in one) t.equal(one.full, limit)
    const lease = leaseOf(taken[0]!)
    lease.release()
    lease.release()
    const again = await until(async () => {
      const one = await nodes[0]!.take([limit])
      return 'lease' in one ? one : null
    })
    t.ok(again)
    t.ok('full' in (await nodes.at(-1)!.take([limit])), 'what is given back twice counts once')
  })

  t.test('permits of several names are taken together, or none is', async (t) => {
    const [permits] = await start(t)
    const [wide, narrow] = [
      { name: newName(), most: 3 },
      { name: newName(), most: 1 },
    ]
    const first = leaseOf(await permits!.take([wide, narrow]))
    t.same(await permits!.take([wide, narrow]), { full: narrow })
    t.equal(permits!.held(wide.name), 1)
    leaseOf(await permits!.take([wide]))
    leaseOf(await permits!.take([wide]))
    t.same(await permits!.take([wide]), { full: wide }, 'the refused one has taken nothing')
    first.release()
    t.equal(permits!.held(narrow.name), 0)
    leaseOf(
      await until(async () => {
        const one = await permits!.take([wide, narrow])
        return 'lease' in one ? one : null
      }),
    )
  })

  t.test('who waits gets the permit that is given back', async (t) => {
    const nodes = await start(t)
    const limit = { name: newName(), most: 1 }
    const first = leaseOf(await nodes[0]!.take([limit]))
    const last = nodes.at(-1)!
    const waits = last.wait(limit, { workspace: 'acme', waitMs: LONG_MS, signal: NEVER })
    await waitUntil(() => last.waiting(limit.name) === 1)
    first.release()
    const lease = await waits
    t.ok(lease)
    t.equal(last.waiting(limit.name), 0)
    t.same(await nodes[0]!.take([limit]), { full: limit })
    lease?.release()
  })

  t.test('nobody waits longer than told, and who left takes nothing', async (t) => {
    const nodes = await start(t)
    const limit = { name: newName(), most: 1 }
    const first = leaseOf(await nodes[0]!.take([limit]))
    const permits = nodes.at(-1)!
    const beganMs = performance.now()
    t.equal(await permits.wait(limit, { workspace: 'acme', waitMs: 0, signal: NEVER }), null)
    t.equal(await permits.wait(limit, { workspace: 'acme', waitMs: 60, signal: NEVER }), null)
    t.ok(performance.now() - beganMs >= 55)
    const call = new Cancellation()
    const leaves = permits.wait(limit, { workspace: 'acme', waitMs: LONG_MS, signal: call })
    await waitUntil(() => permits.waiting(limit.name) === 1)
    call.abort(new Error('left'))
    t.equal(await leaves, null)
    t.equal(await permits.wait(limit, { workspace: 'acme', waitMs: LONG_MS, signal: call }), null)
    t.equal(permits.waiting(limit.name), 0)
    first.release()
    const next = await permits.wait(limit, { workspace: 'acme', waitMs: LONG_MS, signal: NEVER })
    t.ok(next, 'those who left hold none')
  })

  t.test('workspaces get permits in turn, and the calls of one in line', async (t) => {
    const nodes = await start(t)
    const limit = { name: newName(), most: 1 }
    let lease: PermitLease | null = leaseOf(await nodes[0]!.take([limit]))
    const served: string[] = []
    const queue = async (workspace: string, n: number) => {
      const permits = nodes[n % nodes.length]!
      const got = await permits.wait(limit, { workspace, waitMs: LONG_MS, signal: NEVER })
      served.push(`${workspace}${n}`)
      lease = got
    }
    const calls: Promise<void>[] = []
    for (const [workspace, count] of [
      ['flood', 12],
      ['acme', 2],
      ['zeta', 2],
    ] as const)
      for (let n = 0; n < count; n += 1) {
        calls.push(queue(workspace, n))
        await sleep(2)
      }
    for (let i = 0; i < 16; i += 1) {
      t.ok(await waitUntil(() => lease !== null))
      const held: PermitLease | null = lease
      lease = null
      held?.release()
    }
    await Promise.all(calls)
    const others = served.slice(0, 6).filter((one) => !one.startsWith('flood'))
    t.same(others.sort(), ['acme0', 'acme1', 'zeta0', 'zeta1'], served.join(' '))
    // Of each node: two connections keep no order between them.
    for (const node of nodes.keys()) {
      const ofNode = Array.from({ length: 12 }, (_, n) => n).filter((n) => n % nodes.length === node)
      const names = ofNode.map((n) => `flood${n}`)
      t.same(
        served.filter((one) => names.includes(one)),
        names,
      )
    }
  })
}

async function until<T>(get: () => Promise<T | null>): Promise<T> {
  for (;;) {
    const got = await get()
    if (got !== null) return got
    await sleep(5)
  }
}
