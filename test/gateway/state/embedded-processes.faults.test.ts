import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { tempFolder } from '../../support/scratch.ts'
import { beginningOf, NO_TERMS, newWorkspace, reserve } from '../../support/state-under-test.ts'
import { waitUntil } from '../../support/wait-until.ts'
import type { StateOrder } from './state-process.ts'

const PROGRAM = fileURLToPath(new URL('./state-process.ts', import.meta.url))
const log = pino({ level: 'silent' })

/** A process with a state of its own, what it prints, and how it ends. */
function run(t: Test, order: StateOrder, file = process.execPath, before: readonly string[] = []) {
  const child: ChildProcess = spawn(file, [...before, PROGRAM, JSON.stringify(order)])
  t.teardown(() => child.kill('SIGKILL'))
  const lines: string[] = []
  createInterface({ input: child.stdout! }).on('line', (line) => lines.push(line))
  let errors = ''
  child.stderr!.on('data', (chunk) => {
    errors += chunk
  })
  const ended = once(child, 'close')
  return { child, lines, ended, errors: () => errors }
}

async function open(t: Test, file: string) {
  const state = await openEmbeddedState({ file, log })
  t.teardown(() => state.close())
  return state
}

t.test('a process that is killed has everything that it acknowledged, and nothing twice', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const workspace = newWorkspace()
  const credits = 1_000_000_000
  const first = await openEmbeddedState({ file, log })
  await first.accounts.addCredits(workspace, { id: 'initial', micros: credits })
  await first.close()

  const begun = new Set<string>()
  const settled = new Set<string>()
  for (let round = 0; round < 5; round++) {
    const { child, lines, ended } = run(t, { file, workspace, work: 'stream', count: 40, micros: 100 })
    const enough = 200 + round * 150
    t.ok(await waitUntil(() => lines.length >= enough, 60_000), 'it works')
    await sleep(Math.random() * 20)
    child.kill('SIGKILL')
    await ended
    for (const line of lines) {
      const [what, id] = line.split(' ')
      if (id?.length === 64) (what === 's' ? settled : begun).add(id)
    }

    const state = await openEmbeddedState({ file, log })
    const views = await Promise.all(
      [...begun].map(async (id) => [id, await state.ledger.look(workspace, id)] as const),
    )
    const lost = views.filter(([, { state }]) => state !== 'running' && state !== 'stored')
    t.same(lost, [], `all of ${begun.size} that were told to have begun are there`)
    const open = views.filter(([id, { state }]) => settled.has(id) && state !== 'stored')
    t.same(open, [], `all of ${settled.size} that were told to be settled are`)
    const wrong = views.filter(
      ([id, view]) =>
        view.state === 'stored' && !('text' in view.result.body && view.result.body.text === id),
    )
    t.same(wrong, [], 'each with its own result')
    const view = await state.accounts.show(workspace, NO_TERMS)
    await state.close()

    // Also of what was not acknowledged slot and money are there together or not at all.
    const db = new DatabaseSync(file)
    const count = (state: string) =>
      Number(db.prepare('SELECT count(*) AS slots FROM slots WHERE state = ?').get(state)?.slots)
    const [running, stored] = [count('running'), count('stored')]
    t.same({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' })
    db.close()
    t.match(view, {
      creditsMicros: credits - 100 * running - stored,
      reservedMicros: 100 * running,
      spentMicros: 100 * running + stored,
      overageMicros: 0,
    })
  }
})

t.test('a disk that takes no more fails calls, keeps none of those, and can still be read', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const workspace = newWorkspace()
  const first = await openEmbeddedState({ file, log })
  await first.accounts.addCredits(workspace, { id: 'initial', micros: 100_000 })
  await first.close()
  // No file of this process may grow beyond 512 blocks of 512 or 1024 bytes.
  const shell = ['-c', `ulimit -f 512 && exec ${process.execPath} "$@"`, 'sh']
  const order = { file, workspace, work: 'fill', count: 400, micros: 10 } as const
  const { lines, ended, errors } = run(t, order, 'sh', shell)
  t.same(await ended, [0, null])
  t.equal(errors(), '')
  const idsOf = (what: string) =>
    lines.filter((line) => line.startsWith(what)).map((line) => line.slice(2, 66))
  const [begun, failed] = [idsOf('b'), idsOf('f')]
  t.ok(begun.length > 0 && failed.length > 0, `${begun.length} begun, ${failed.length} failed`)
  const codes = new Set(lines.filter((line) => line.startsWith('f')).map((line) => line.split(' ')[2]))
  t.same([...codes], ['DEPENDENCY_UNAVAILABLE'])
  t.equal(lines.at(-1), 'r 0 false disk_failed', 'reading goes on')

  const state = await open(t, file)
  const look = async (id: string) => (await state.ledger.look(workspace, id)).state
  t.same(new Set(await Promise.all(begun.map(look))), new Set(['running']))
  t.same(new Set(await Promise.all(failed.map(look))), new Set(['free']))
  const micros = 10 * begun.length
  const view = await state.accounts.show(workspace, NO_TERMS)
  t.match(view, { creditsMicros: 100_000 - micros, reservedMicros: micros, spentMicros: micros })
})

t.test('two processes spend from one purse', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const workspace = newWorkspace()
  const state = await open(t, file)
  await state.accounts.addCredits(workspace, { id: 'initial', micros: 3000 })
  const others = [1, 2].map(() => run(t, { file, workspace, work: 'begin', count: 150, micros: 10 }))
  let begun = 0
  for (let i = 0; i < 150; i++) {
    const { state: answer } = await state.ledger.begin(beginningOf(workspace, { reservation: reserve(10) }))
    if (answer === 'begun') begun += 1
  }
  for (const { ended, errors } of others) {
    t.same(await ended, [0, null])
    t.equal(errors(), '')
  }
  const total = others.reduce((sum, { lines }) => sum + Number(lines[0]), begun)
  t.equal(total, 300, 'all of the credits and not one more')
  t.match(await state.accounts.show(workspace, NO_TERMS), { creditsMicros: 0, reservedMicros: 3000 })
})

t.test('a key that another process makes is seen', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const state = await open(t, file)
  const before = await state.keys.version()
  const { child, lines, ended } = run(t, { file, workspace: 'acme', work: 'keys', count: 0, micros: 0 })
  for (let made = 1; made <= 3; made++) {
    const version = await state.keys.version()
    child.stdin!.write('one more\n')
    t.ok(await waitUntil(() => lines.length === made, 30_000))
    t.not(await state.keys.version(), version, 'at once, by the version')
    t.same((await state.keys.list()).map(({ id }) => id).sort(), [...lines].sort())
  }
  t.not(await state.keys.version(), before)
  child.stdin!.end()
  t.same(await ended, [0, null])
})

t.test('processes that find no file make it together', async (t) => {
  const file = join(await tempFolder(t), 'new', 'state.sqlite')
  const order = { file, workspace: newWorkspace(), work: 'begin', count: 1, micros: 0 } as const
  const processes = Array.from({ length: 4 }, () => run(t, order))
  for (const { ended, lines, errors } of processes)
    t.same([await ended, lines, errors()], [[0, null], ['1'], ''])
})

t.test('a state keeps no process alive, and says nothing of its own accord', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  for (const work of ['close', 'leave'] as const) {
    const { ended, lines, errors } = run(t, { file, workspace: 'acme', work, count: 0, micros: 0 })
    const limit = AbortSignal.timeout(20_000)
    const code = await Promise.race([ended, once(limit, 'abort').then(() => 'still there')])
    t.same(code, [0, null], work)
    t.same([lines, errors()], [[], ''], 'no warning either')
  }
})
