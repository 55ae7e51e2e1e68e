import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Principal } from '../../src/contracts/catalog.ts'
import { newId } from '../../src/contracts/ids.ts'
import { createLogger } from '../../src/contracts/log.ts'
import { CallContext } from '../../src/gateway/call/context/call-context.ts'
import { lockRemovable } from '../../src/gateway/storage/folder-lock.ts'
import { UsageLedger } from '../../src/usage/ledger.ts'
import { WriteAhead } from '../../src/usage/write-ahead.ts'
import { engine, files } from '../../test/support/usage-lake.ts'
import { Exchange } from './exchange.ts'

/**
 * Cost of a record of usage, CPU of all threads of the process: for so many calls in each turn of the loop, with a
 * charge that the state is not told yet. `node bench/micro/usage.ts`
 */

const TURNS = 20_000
const ROUNDS = 5

const attempt = {
  ...{ provider: 'openai', model: 'gpt-5-mini', replica: null, status: 200, milliseconds: 20 },
  ...{ reason: 'ok', failure: null },
}
const principals = Array.from({ length: 20 }, (_, at) => ({
  workspace: { id: `workspace-${at}` },
  app: { id: 'app' },
  key: { id: `key_${at}`, name: 'key' },
})) as unknown as Principal[]

/** So many that what compresses a segment meets none of them twice. */
const requestIds = Array.from({ length: 65_536 }, () => newId('req'))
let calls = 0

/** A call that is over. */
function call(exchange: Exchange, at: number): CallContext {
  const context = new CallContext(exchange)
  context.principal = principals[at % principals.length]!
  context.operation = 'chat'
  context.routing.route = 'chat'
  context.routing.policyVersionId = 'pv_0123456789abcdef'
  context.routing.attempts = [attempt]
  context.upstreamWaitMs = 20.5
  context.money.usage = {
    input_tokens: 120 + (calls & 127),
    output_tokens: 40 + (calls & 15),
    total_tokens: 160,
  }
  context.money.costUsd = 0.00012 + (calls & 127) / 1e6
  return context
}

async function nanosecondsPerCall(ledger: UsageLedger | null, perTurn: number): Promise<number> {
  const turns = Math.ceil(TURNS / Math.sqrt(perTurn))
  const before = process.cpuUsage()
  for (let turn = 0; turn < turns; turn += 1) {
    for (let at = 0; at < perTurn; at += 1) {
      calls += 1
      const exchange = new Exchange('/v1/chat', requestIds[calls % requestIds.length])
      const context = call(exchange, turn + at)
      context.money.charged(120 + (calls & 127))
      ledger?.charged(context, false, null)
      exchange.finish(200)
      ledger?.over(exchange, context)
    }
    await new Promise(setImmediate)
  }
  const { user, system } = process.cpuUsage(before)
  return ((user + system) * 1_000) / (turns * perTurn)
}

const root = mkdtempSync(join(tmpdir(), 'larkway-usage-'))
const log = createLogger('silent')
const rows = await WriteAhead.open({ root, lock: lockRemovable, roll: null, backlogBytes: 1e12, log })
const ledger = new UsageLedger({
  rows,
  node: 'bench',
  paramOf: () => null,
  calls: new Set(['POST /v1/chat']),
})
for (const perTurn of [1, 2, 4, 8, 16, 64]) {
  const differences: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const off = await nanosecondsPerCall(null, perTurn)
    const on = await nanosecondsPerCall(ledger, perTurn)
    if (round > 0) differences.push(on - off)
  }
  differences.sort((one, other) => one - other)
  const median = differences[Math.floor(differences.length / 2)]!
  process.stdout.write(`${String(perTurn).padStart(3)} calls a turn: ${Math.round(median)} ns each\n`)
}
await rows.close()

/** CPU of making files of a segment, which the process of DuckDB does, and which is done each minute. */
for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
  if (!path.endsWith('.usage')) continue
  const took: number[] = []
  let records = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = cpuMsOf(engine.pid)
    records = 0
    await files.roll(join(root, path), async ({ rows }) => {
      records += rows
    })
    took.push(((cpuMsOf(engine.pid) - before) * 1e6) / records)
  }
  took.sort((one, other) => one - other)
  const median = took[Math.floor(took.length / 2)]!
  process.stdout.write(`rolled: ${Math.round(median)} ns each of ${records}\n`)
}
await engine.close()
rmSync(root, { recursive: true, force: true })

/** CPU time of a process, in hundredths of a second; 0 where there is none. */
function cpuMsOf(pid: number | null): number {
  if (pid === null) return 0
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}
