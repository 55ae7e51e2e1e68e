import { pino } from 'pino'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import {
  beginningOf,
  claimOf,
  LONG_MS,
  newDigest,
  newToken,
  reserve,
  resultOf,
} from '../../support/state-under-test.ts'

/**
 * What a process does with a state of its own on a file. `stream`: calls without end, each told on standard output when
 * it has begun (`b <slot>`) and when it is settled (`s <slot>`). `fill`: so many that only begin, four at a time, each
 * told when it has begun or failed (`f <slot> <code>`). `begin`: so many reservations, and how many were granted.
 * `keys`: a key for each chunk of standard input. `leave`: one look, then nothing, without closing.
 */
export interface StateOrder {
  readonly file: string
  readonly workspace: string
  readonly work: 'stream' | 'fill' | 'begin' | 'keys' | 'close' | 'leave'
  readonly count: number
  readonly micros: number
}

const order = JSON.parse(process.argv[2] ?? '') as StateOrder
const { file, workspace, work, count, micros } = order
const state = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
const say = (line: string) => process.stdout.write(`${line}\n`)

const WORKS: Record<StateOrder['work'], () => Promise<unknown>> = {
  stream: () => Promise.all(Array.from({ length: count }, stream)),
  fill: async () => {
    for (let i = 0; i < count; i += 4) await Promise.all([fill(), fill(), fill(), fill()])
    const keys = await state.keys.list()
    say(`r ${keys.length} ${await state.healthy()} ${state.blocked()}`)
    await state.close()
  },
  begin: async () => {
    let begun = 0
    for (let i = 0; i < count; i++) begun += (await reserveOne()).state === 'begun' ? 1 : 0
    say(String(begun))
    await state.close()
  },
  keys: async () => {
    for await (const _ of process.stdin) await makeKey()
    await state.close()
  },
  close: () => state.close(),
  leave: () => state.keys.list(),
}
await WORKS[work]()

async function stream(): Promise<never> {
  for (;;) {
    const [id, token] = [newDigest(), newToken()]
    await state.ledger.begin(
      beginningOf(workspace, { token, slot: claimOf(id), reservation: reserve(micros) }),
    )
    say(`b ${id}`)
    const end = { state: 'stored', result: resultOf(id), ttlMs: LONG_MS } as const
    const charge = { platformMicros: 1, spendMicros: 1 }
    await state.ledger.settle({ token, workspace, slot: { id, end }, charge })
    say(`s ${id}`)
  }
}

async function fill(): Promise<void> {
  const id = newDigest()
  const over = { slot: claimOf(id), reservation: reserve(micros) }
  try {
    await state.ledger.begin(beginningOf(workspace, over))
    say(`b ${id}`)
  } catch (error) {
    say(`f ${id} ${error instanceof GatewayError ? error.code : error}`)
  }
}

function reserveOne() {
  return state.ledger.begin(beginningOf(workspace, { reservation: reserve(micros) }))
}

async function makeKey(): Promise<void> {
  const key = {
    id: newToken(),
    sha256: newDigest(),
    prefix: 'lk_live_',
    workspace,
    app: 'web',
    name: '',
    scopes: [],
    rateLimit: null,
    budgetMicros: null,
    expiresAtMs: null,
    createdAtMs: Date.now(),
    revokedAtMs: null,
  }
  await state.keys.create(key)
  say(key.id)
}
