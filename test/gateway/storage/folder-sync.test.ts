import { EventEmitter, once } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { syncFolder } from '../../../src/gateway/storage/folder.ts'
import { tempFolder } from '../../support/scratch.ts'
import { watchSyncs } from './watch-syncs.ts'

t.test('many share a sync, and each has one that began after its call', async (t: Test) => {
  const folder = await tempFolder(t)
  let begun = 0
  let newestDone = 0
  let now = 0
  let release = () => {}
  const events = new EventEmitter()
  await watchSyncs(t, async (sync) => {
    begun += 1
    const number = begun
    now += 1
    t.equal(now, 1, 'one at a time')
    await new Promise<void>((resolve) => {
      release = resolve
      events.emit('begun')
    })
    await sync()
    now -= 1
    newestDone = number
  })
  const call = async () => {
    const before = begun
    await syncFolder(folder)
    if (newestDone <= before) t.fail('a call had a sync that had begun before it')
  }
  const waves = 20
  let held = once(events, 'begun')
  const calls = [call()]
  await held
  for (let wave = 0; wave < waves; wave++) {
    calls.push(...Array.from({ length: 20 }, call)) // while one is under way
    held = once(events, 'begun')
    release()
    await held
  }
  release()
  await Promise.all(calls)
  t.equal(begun, waves + 1, `${calls.length} calls, a sync for each time that one ended with others waiting`)
  const last = syncFolder(folder)
  await once(events, 'begun')
  release()
  await last
  t.equal(begun, waves + 2, 'and none is left over')
})

t.test('folders do not wait for one another', async (t: Test) => {
  const [one, other] = [await tempFolder(t), await tempFolder(t)]
  let now = 0
  let most = 0
  const both = Promise.withResolvers<void>()
  await watchSyncs(t, async (sync) => {
    now += 1
    most = Math.max(most, now)
    if (now === 2) both.resolve()
    await Promise.race([both.promise, sleep(5_000, undefined, { ref: false })])
    await sync()
    now -= 1
  })
  await Promise.all([syncFolder(one), syncFolder(other)])
  t.equal(most, 2)
})

t.test('a sync that fails fails for those who share it, and for none after them', async (t: Test) => {
  const folder = join(await tempFolder(t), 'folder')
  const missing = Array.from({ length: 3 }, () => syncFolder(folder))
  for (const result of await Promise.allSettled(missing)) t.equal(result.status, 'rejected')
  await mkdir(folder)
  const [running, after] = [syncFolder(folder), syncFolder(folder)]
  await running
  await rm(folder, { recursive: true })
  await after.catch(() => {})
  await mkdir(folder)
  await t.resolves(syncFolder(folder))
})
