import { mkdir, rename, symlink, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Offered } from '../../../src/gateway/catalog/serving.ts'
import { type CatalogSource, openCatalog } from '../../../src/gateway/catalog/watch.ts'
import { EXAMPLE, SURROUNDINGS } from '../../support/catalog-file.ts'

const SLOWER = EXAMPLE.replace('requests_per_minute: 60', 'requests_per_minute: 30')
const BROKEN = EXAMPLE.replace('provider: whisper,', 'provider: wisper,')
const { readSecret: _, ...outside } = SURROUNDINGS

function requestsPerMinute({ serving }: CatalogSource): number | undefined {
  return serving.current().keys.values().next().value?.key.rateLimit.requestsPerMinute
}

/** A watched example in a folder of its own, and the outcomes of reloads as they come. */
async function watched(t: Test, folder = t.testdir({ 'larkway.yaml': EXAMPLE })) {
  const path = join(folder, 'larkway.yaml')
  const source = await openCatalog({ path, ...outside })
  t.teardown(() => source.close())
  const outcomes: Offered[] = []
  let onOutcome = () => {}
  source.watch((outcome) => {
    outcomes.push(outcome)
    onOutcome()
  })
  const reloaded = () =>
    new Promise<void>((resolve, reject) => {
      // The watch keeps no process alive; this timer does.
      const timer = setTimeout(() => reject(new Error('the change was not seen')), 10_000)
      onOutcome = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  return { folder, path, source, outcomes, reloaded }
}

t.test('a file that is missing or faulty is refused at the start, with all that is wrong', async (t) => {
  const folder = t.testdir({ 'larkway.yaml': BROKEN })
  const open = (name: string) => openCatalog({ path: join(folder, name), ...outside })
  await t.rejects(
    open('nothing.yaml'),
    /nothing\.yaml is not valid:\n {2}\/: the file cannot be read \(ENOENT\)/,
  )
  await t.rejects(open('larkway.yaml'), {
    name: 'CatalogError',
    message:
      /larkway\.yaml is not valid:\n {2}\/routes\/voice\/entries\/0\/provider: there is no provider "wisper"/,
  })
})

t.test('reload takes what is there, or says why it cannot', async (t) => {
  const folder = t.testdir({ 'larkway.yaml': EXAMPLE })
  const path = join(folder, 'larkway.yaml')
  const source = await openCatalog({ path, ...outside })
  const first = source.serving.current()

  t.same(await source.reload(), { changed: false })
  t.equal(source.serving.current(), first, 'the very same snapshot stays')

  await writeFile(path, BROKEN)
  t.match(await source.reload(), { issues: [/wisper/] })
  t.equal(source.serving.current(), first, 'an invalid file leaves the running one in force')

  await writeFile(path, SLOWER)
  const outcomes = await Promise.all([source.reload(), source.reload(), source.reload()])
  t.same(outcomes, [{ changed: true }, { changed: false }, { changed: false }])
  t.equal(requestsPerMinute(source), 30)
})

t.test('a new secret in a file counts as a change', async (t) => {
  const folder = t.testdir({
    'larkway.yaml': EXAMPLE.replace(`\${OPENAI_API_KEY}`, 'file:keys/openai'),
    keys: { openai: 'sk-first' },
  })
  const source = await openCatalog({ path: join(folder, 'larkway.yaml'), ...outside })
  const credential = () => source.serving.good().routes[0]?.entries[1]?.provider.credential
  t.equal(credential(), 'sk-first', 'found from the folder of the configuration')
  await writeFile(join(folder, 'keys/openai'), 'sk-second\n')
  t.same(await source.reload(), { changed: true })
  t.equal(credential(), 'sk-second')
})

t.test('a change is seen: written in place', async (t) => {
  const { path, source, outcomes, reloaded } = await watched(t)
  const seen = reloaded()
  await writeFile(path, SLOWER)
  await seen
  t.same(outcomes, [{ changed: true }])
  t.equal(requestsPerMinute(source), 30)
})

t.test('a change is seen: another file in the place of the old one, again and again', async (t) => {
  const { folder, path, source, outcomes, reloaded } = await watched(t)
  for (const text of [SLOWER, EXAMPLE, SLOWER]) {
    const seen = reloaded()
    await writeFile(join(folder, '.larkway.yaml.swp'), text)
    await unlink(path)
    await rename(join(folder, '.larkway.yaml.swp'), path)
    await seen
  }
  t.same(outcomes, [{ changed: true }, { changed: true }, { changed: true }])
  t.equal(requestsPerMinute(source), 30)
})

t.test('a change is seen: the link of a mounted folder', async (t) => {
  const folder = t.testdir({ one: { 'larkway.yaml': EXAMPLE }, two: { 'larkway.yaml': SLOWER } })
  await symlink('one', join(folder, '..data'))
  await symlink('..data/larkway.yaml', join(folder, 'larkway.yaml'))
  const { source, reloaded } = await watched(t, folder)
  const seen = reloaded()
  await symlink('two', join(folder, '..data_tmp'))
  await rename(join(folder, '..data_tmp'), join(folder, '..data'))
  await seen
  t.equal(requestsPerMinute(source), 30)
})

t.test('an invalid file is reported and changes nothing, and the next good one is taken', async (t) => {
  const { path, source, outcomes, reloaded } = await watched(t)
  let seen = reloaded()
  await writeFile(path, BROKEN)
  await seen
  t.match(outcomes, [{ issues: [/wisper/] }])
  t.equal(requestsPerMinute(source), 60)
  seen = reloaded()
  await writeFile(path, SLOWER)
  await seen
  t.equal(requestsPerMinute(source), 30)
})

t.test('other files of the folder are none of its business, and a closed source is silent', async (t) => {
  const { folder, path, source, outcomes } = await watched(t)
  await writeFile(join(folder, 'notes.txt'), 'x')
  await mkdir(join(folder, 'sub'))
  await sleep(600)
  t.same(outcomes, [])
  source.close()
  await writeFile(path, SLOWER)
  await sleep(600)
  t.same(outcomes, [])
  t.equal(requestsPerMinute(source), 60)
})
