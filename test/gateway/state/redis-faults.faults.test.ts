import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Charge, SlotEnd } from '../../../src/contracts/ledger.ts'
import type { State } from '../../../src/contracts/state.ts'
import { Dice } from '../../support/dice.ts'
import { type RedisProxy, startRedisProxy } from '../../support/redis-proxy.ts'
import { type RedisServer, startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import {
  claimOf,
  figuresOf,
  LONG_MS,
  NO_TERMS,
  newDigest,
  newToken,
  newWorkspace,
  reserve,
  resultOf,
} from '../../support/state-under-test.ts'
import { CUTS } from './redis-cuts.ts'

const FAULTS = 500
/** Of so many faults one is a kill of the server, and the others break connections. */
const KILL_EVERY = 25
const WORKERS_PER_NODE = 4
const SLOTS = 12
const CREDITS = 1_000_000_000
const LIMIT_MS = 5_000
const COMMANDS = ['begin_call', 'settle_call', 'cancel_call']

/** What is known of a slot: no call may begin on one that is `held` or `ended`. */
type Known = 'held' | 'releasing' | 'ended'

/** What the calls of all nodes know together. */
class Model {
  readonly workspace = newWorkspace()
  readonly pool = Array.from({ length: SLOTS }, newDigest)
  readonly slots = new Map<string, Known>()
  readonly faults: string[] = []
  calls = 0
  lost = 0
  slowestMs = 0
  platformMicros = 0
  overageMicros = 0
  spentMicros = 0

  begun(slotId: string): void {
    const known = this.slots.get(slotId)
    if (known === 'held' || known === 'ended') this.faults.push(`a call began on a slot that was ${known}`)
    this.slots.set(slotId, 'held')
  }

  ends(slotId: string, end: SlotEnd['state']): void {
    this.slots.set(slotId, end === 'released' ? 'releasing' : 'ended')
  }

  charged(reserved: number, { platformMicros, spendMicros }: Charge): void {
    this.platformMicros += Math.min(platformMicros, reserved)
    this.overageMicros += Math.max(platformMicros - reserved, 0)
    this.spentMicros += spendMicros
  }

  /** The answer; undefined when it was lost. */
  async time<T>(call: Promise<T>): Promise<T | undefined> {
    const startMs = performance.now()
    this.calls += 1
    try {
      return await call
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'DEPENDENCY_UNAVAILABLE') this.faults.push(String(error))
      this.lost += 1
      return undefined
    } finally {
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startMs)
    }
  }

  /** Until it is answered. */
  async insist<T>(call: () => Promise<T>): Promise<{ answer: T; tries: number }> {
    for (let tries = 1; ; tries++) {
      const answer = await this.time(call().then((value) => ({ value })))
      if (answer !== undefined) return { answer: answer.value, tries }
      await sleep(10)
    }
  }
}

/** Calls of a node, one after the other. */
async function work({ ledger }: State, model: Model, dice: Dice, isOver: () => boolean): Promise<void> {
  const { workspace } = model
  while (!isOver()) {
    const place = dice.below(SLOTS)
    const [id, token, reserved] = [model.pool[place]!, newToken(), dice.below(500)]
    const reservation = reserve(reserved)
    const begun = await model.time(ledger.begin({ token, workspace, slot: claimOf(id), reservation }))
    if (begun?.state === 'begun') {
      model.begun(id)
      await sleep(dice.below(4))
      const charge = { platformMicros: dice.below(600), spendMicros: dice.below(600) }
      const state = dice.one(['stored', 'burned', 'released', 'released', 'released'] as const)
      model.ends(id, state)
      const end = { state, result: resultOf(token), ttlMs: LONG_MS } as SlotEnd
      const { answer } = await model.insist(() =>
        ledger.settle({ token, workspace, slot: { id, end }, charge }),
      )
      // What was released may be another's by the time of a second try.
      if (state !== 'released' && !answer.slotHeld) model.faults.push(`a slot was not ${state} as told`)
      model.charged(reserved, charge)
    } else if (begun === undefined) {
      await model.insist(() => ledger.cancel({ token, workspace, slotId: id }).then(() => true))
    } else if (begun.state === 'stored' || begun.state === 'burned') {
      if (model.pool[place] === id) model.pool[place] = newDigest()
    }
    await sleep(dice.below(6))
  }
}

async function breakThings(redis: RedisServer, proxy: RedisProxy, dice: Dice): Promise<void> {
  for (let fault = 1; fault <= FAULTS; fault++) {
    if (fault % KILL_EVERY === 0) await redis.restart()
    else if (dice.chance(0.2)) proxy.cut()
    else {
      const [command, cut] = [dice.one(COMMANDS), dice.one(CUTS)]
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 200)
        proxy.judge = ({ name }) => {
          if (name !== command) return 'pass'
          proxy.judge = () => 'pass'
          clearTimeout(timer)
          resolve()
          return cut
        }
      })
    }
    await sleep(dice.below(40))
  }
}

async function settled(t: Test, state: State, model: Model): Promise<void> {
  const { answer: account } = await model.insist(() => state.accounts.show(model.workspace, NO_TERMS))
  t.match(figuresOf(account), {
    creditsMicros: CREDITS - model.platformMicros,
    overageMicros: model.overageMicros,
    reservedMicros: 0,
    expired: { count: 0 },
    spentMicros: model.spentMicros,
  })
  for (const id of new Set([...model.pool, ...model.slots.keys()])) {
    const { state: shown } = await state.ledger.look(model.workspace, id)
    const known = model.slots.get(id)
    if (known === 'ended' ? shown !== 'stored' && shown !== 'burned' : shown !== 'free')
      model.faults.push(`a slot that is ${known} is shown as ${shown}`)
  }
  t.same(model.faults, [])
}

t.test(
  'connections that break and servers that die: no slot is executed twice, no money lost',
  { skip: withoutServers },
  async (t) => {
    const seed = Math.floor(Math.random() * 1_000_000)
    t.comment(`seed ${seed}`)
    const redis = await startRedis(t, { durable: true })
    const proxy = await startRedisProxy(t, redis.port)
    const nodes = [await openRedisState(t, proxy.url), await openRedisState(t, proxy.url)]
    const model = new Model()
    await nodes[0]!.accounts.addCredits(model.workspace, { id: 'first', micros: CREDITS })

    let isOver = false
    const workers = nodes.flatMap((node, n) =>
      Array.from({ length: WORKERS_PER_NODE }, (_, i) =>
        work(node, model, new Dice(seed + 10 * n + i), () => isOver),
      ),
    )
    await breakThings(redis, proxy, new Dice(seed + 99))
    proxy.judge = () => 'pass'
    isOver = true
    await Promise.all(workers)

    await settled(t, nodes[0]!, model)
    t.ok(model.slowestMs < LIMIT_MS, `the slowest call took ${model.slowestMs} ms`)
    t.ok(model.lost > FAULTS / 2, `${model.lost} calls were lost`)
    t.ok(model.calls - model.lost > 2000, `${model.calls - model.lost} calls were answered`)
    t.ok(model.slots.size > 50, `${model.slots.size} slots`)
  },
)
