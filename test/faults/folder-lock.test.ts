import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { lockFolder } from '../../src/gateway/storage/folder-lock.ts'
import { childEnvironment } from '../support/child-environment.ts'
import { tempFolder } from '../support/scratch.ts'

const PROGRAM = fileURLToPath(new URL('./lock-process.ts', import.meta.url))
const LONG = process.env.LARKWAY_TEST_LONG === '1'
const ROUNDS = LONG ? 1_000 : 60
/** Rounds in which the owner is killed before. */
const KILLS = LONG ? 60 : 6
const STARTERS = 3
const IN_USE = / is in use by another Larkway process/

/** A process that locks one folder after the other. */
function startLocker(t: Test) {
  const child = spawn(process.execPath, ['--no-warnings', PROGRAM], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: childEnvironment(),
  })
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  t.teardown(kill)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    kill,
    /** @returns whether it has the folder */
    async lock(folder: string): Promise<boolean> {
      child.stdin.write(`${folder}\n`)
      const { value } = await lines.next()
      if (value !== 'has it') t.match(value, IN_USE)
      return value === 'has it'
    },
  }
}

/** A folder as a process has left it that was killed: with what earlier versions left, too. */
async function staleFolder(root: string, round: number): Promise<string> {
  const folder = join(root, String(round))
  await mkdir(folder)
  await writeFile(join(folder, 'lock'), '')
  const server = createServer().listen(join(folder, 'draft.sock'))
  await once(server, 'listening')
  await rename(join(folder, 'draft.sock'), join(folder, 'lock.sock'))
  server.close()
  return folder
}

t.test(`of ${STARTERS} that start at once on a stale lock one has the folder`, async (t) => {
  const root = await tempFolder(t)
  const lockers = Array.from({ length: STARTERS }, () => startLocker(t))
  const owners: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const folder = await staleFolder(root, round)
    const has = await Promise.all(lockers.map(({ lock }) => lock(folder)))
    owners.push(has.filter(Boolean).length)
  }
  t.same(
    owners.filter((count) => count !== 1),
    [],
    `one owner in each of ${ROUNDS} rounds`,
  )
})

t.test('a folder that cannot be made is named as the data folder', (t) =>
  t.rejects(lockFolder(PROGRAM), { message: `the data folder ${PROGRAM} cannot be locked: EEXIST` }),
)

t.test('a folder whose owner is killed has one owner again at once', async (t) => {
  const folder = await tempFolder(t)
  let owner = startLocker(t)
  t.ok(await owner.lock(folder))
  for (let round = 0; round < KILLS; round += 1) {
    const starters = Array.from({ length: STARTERS }, () => startLocker(t))
    t.same(await Promise.all(starters.map(({ lock }) => lock(folder))), [false, false, false], 'it lives')
    await owner.kill()
    const has = await Promise.all(starters.map(({ lock }) => lock(folder)))
    t.equal(has.filter(Boolean).length, 1)
    owner = starters[has.indexOf(true)]!
    await Promise.all(starters.filter((one) => one !== owner).map(({ kill }) => kill()))
  }
})

t.test('a folder that an earlier version has is refused', async (t) => {
  const folder = await tempFolder(t)
  const server = createServer((socket) => socket.destroy()).listen(join(folder, 'lock.sock'))
  await once(server, 'listening')
  await t.rejects(lockFolder(folder), { message: IN_USE })
  await new Promise((resolve) => server.close(resolve))
  const free = await lockFolder(folder)
  await t.rejects(lockFolder(folder), { message: IN_USE }, 'within one process, too')
  await free()
  await (await lockFolder(folder))()
})
