import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { idTimeMs, newId } from '../../src/contracts/ids.ts'
import { createLogger } from '../../src/contracts/log.ts'
import type { ClosedSegment } from '../../src/contracts/usage-segment.ts'
import { Backlog, type BacklogDependencies } from '../../src/usage/backlog.ts'
import { waitUntil } from '../support/wait-until.ts'

const BYTES = 1_000

/** A backlog over a folder with so many segments, none of which it has yet. */
async function backlogOf(t: Test, count: number, over: Partial<BacklogDependencies> = {}) {
  const folder = t.testdir()
  const lines: { level: string; msg: string; path?: string }[] = []
  const log = createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) })
  const segments: ClosedSegment[] = []
  for (let at = 0; at < count; at += 1) {
    const id = newId('seg')
    const path = join(folder, `${id}.usage`)
    await writeFile(path, '')
    segments.push({ id, path, bytes: BYTES })
    // Ids have the millisecond in which they were made.
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  const rolled: number[] = []
  const bad = new Set<number>()
  /** The store refuses so many segments. */
  const away = { times: 0, refused: 0 }
  const roll = async ({ id, path }: ClosedSegment) => {
    const place = segments.findIndex((segment) => segment.id === id)
    if (away.refused < away.times || bad.has(place)) {
      away.refused += 1
      throw new Error('EIO: i/o error, read')
    }
    await readFile(path)
    rolled.push(place)
  }
  const backlog = new Backlog({ folder, roll, log, retryMs: [5, 20], ...over })
  t.teardown(() => backlog.close(100))
  const said = (words: string) => lines.filter(({ msg }) => msg.includes(words)).length
  return { folder, backlog, segments, rolled, bad, away, lines, said }
}

t.test('a segment whose file is gone is given up, and those behind it go on', async (t) => {
  const { folder, backlog, segments, rolled, said } = await backlogOf(t, 3)
  await rm(segments[0]!.path)
  for (const segment of segments) backlog.add(segment)
  t.ok(await waitUntil(async () => rolled.length === 2, 5_000))
  t.same(rolled, [1, 2])
  t.ok(await waitUntil(async () => backlog.bytes === 0, 5_000))
  t.equal(backlog.oldestMs, null)
  t.equal(backlog.rolled, 2)
  t.equal(said('records are lost'), 1)
  t.same(await readdir(folder), [])
})

t.test('nothing is given up while the folder cannot be read', async (t) => {
  const { backlog, segments, folder, rolled, said } = await backlogOf(t, 1)
  await rm(folder, { recursive: true })
  backlog.add(segments[0]!)
  t.ok(await waitUntil(async () => said('cannot be handed on') === 1, 5_000))
  t.same([rolled, backlog.bytes, said('records are lost')], [[], BYTES, 0])
})

t.test('a segment that comes twice is counted and handed on once', async (t) => {
  const { backlog, segments, rolled, away, lines } = await backlogOf(t, 2)
  away.times = 2
  for (const segment of [...segments, segments[0]!]) backlog.add(segment)
  t.equal(backlog.bytes, 2 * BYTES)
  t.ok(await waitUntil(async () => backlog.bytes === 0, 5_000))
  t.same([...rolled].sort(), [0, 1])
  t.same(
    lines.filter(({ level }) => level === 'error'),
    [],
  )
})

t.test('segments that cannot be read are set aside, counted, and tried again', async (t) => {
  const { backlog, segments, rolled, bad, said } = await backlogOf(t, 8)
  for (const place of [0, 1, 2, 5]) bad.add(place)
  for (const segment of segments) backlog.add(segment)
  t.ok(await waitUntil(async () => rolled.length === 4, 5_000), `${rolled}`)
  t.same([...rolled].sort(), [3, 4, 6, 7])
  t.ok(await waitUntil(async () => said('set aside') === 4, 5_000), 'each is told of')
  t.equal(backlog.bytes, 4 * BYTES)
  t.equal(backlog.oldestMs, idTimeMs(segments[0]!.id), 'they are not done')
  await new Promise((resolve) => setTimeout(resolve, 60))
  t.equal(said('set aside'), 4, 'once')
  bad.delete(0)
  bad.delete(5)
  t.ok(await waitUntil(async () => backlog.rolled === 6, 5_000))
  t.equal(backlog.oldestMs, idTimeMs(segments[1]!.id))
  bad.clear()
  t.ok(await waitUntil(async () => backlog.bytes === 0, 5_000))
  t.equal(backlog.oldestMs, null)
  t.equal(backlog.rolled, 8)
})

t.test('what comes later does not wait for those that are set aside', async (t) => {
  const { backlog, segments, rolled, bad } = await backlogOf(t, 6, { retryMs: [5, 600_000] })
  bad.add(0)
  for (const segment of segments.slice(0, 2)) backlog.add(segment)
  t.ok(await waitUntil(async () => rolled.length === 1, 5_000))
  // Until it is tried again no more in the time of this test.
  await new Promise((resolve) => setTimeout(resolve, 500))
  for (const segment of segments.slice(2)) backlog.add(segment)
  t.ok(await waitUntil(async () => rolled.length === 5, 5_000), `${rolled}`)
  t.same(rolled, [1, 2, 3, 4, 5], 'in their order')
  bad.clear()
  await backlog.close(2_000)
  t.same(rolled, [1, 2, 3, 4, 5, 0], 'at the end all are tried once more')
})

t.test('when the store comes back all are handed on in their order', async (t) => {
  const { backlog, segments, rolled, away, said } = await backlogOf(t, 10)
  // The oldest three times, and then two at a time.
  away.times = 9
  for (const segment of segments) backlog.add(segment)
  t.ok(await waitUntil(async () => rolled.length === 10, 5_000))
  t.same(rolled, Array.from(rolled.keys()))
  t.equal(said('set aside'), 0, 'none is at fault')
  t.equal(said('kept and tried again'), 1)
  t.equal(said('taken again'), 1)
})
