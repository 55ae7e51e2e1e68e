import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import type {
  AuditNote,
  CatalogChange,
  CatalogRecord,
  CatalogStep,
  CatalogStore,
  RecordName,
} from '../../../src/contracts/catalog-store.ts'
import {
  ANNA,
  CLI,
  changeOf,
  discard,
  draft,
  noteOf,
  publish,
  remove,
  routeOf,
  withoutMoments,
} from '../../support/catalog-under-test.ts'
import { Dice } from '../../support/dice.ts'
import type { StateUnderTest } from '../../support/state-under-test.ts'
import { CatalogModel } from './catalog-model.ts'

const VOICE = routeOf('acme')
const RECORDS: readonly RecordName[] = [
  VOICE,
  routeOf('acme', 'other'),
  { kind: 'app', workspace: 'acme', name: 'web' },
  { kind: 'app', workspace: 'beta', name: 'web' },
  { kind: 'plan', workspace: null, name: 'pro' },
]
/** Names of the ones above, and none of theirs. */
const FOREIGN: readonly RecordName[] = [
  { ...VOICE, workspace: 'beta' },
  { ...VOICE, workspace: null },
]
const WORKSPACES = ['acme', 'beta', null] as const
/** What is done, as often as it stands here. */
const OFTEN = 'change change change change change again note wait'.split(' ')
const MAX_STEPS_BETWEEN_LOOKS = 4

interface Walks {
  readonly count: number
  readonly steps: number
}

/**
 * Random histories, each step compared with a model. Where the clock can be moved, it is, and moments are compared too.
 *
 * @param walks how many histories, and how many steps each has
 */
export function catalogModelContract(
  t: Test,
  start: (t: Test) => Promise<StateUnderTest>,
  walks: Walks,
): void {
  const first = Math.floor(Math.random() * 1_000_000)
  t.test(`random histories of a catalog behave as the model says, from seed ${first}`, async (t) => {
    for (let seed = first; seed < first + walks.count; seed++)
      if (!(await walk(t, await start(t), seed, walks.steps))) break
  })
}

/** @returns whether catalog and model agreed all the way */
async function walk(t: Test, { state, setClock }: StateUnderTest, seed: number, steps: number) {
  const { catalog } = state
  const dice = new Dice(seed)
  const model = new CatalogModel(Date.UTC(2027, dice.below(12), 1), await catalog.version())
  setClock?.(model.nowMs)
  const draw = drawing(dice, model)
  const history: string[] = []
  const agree = (what: string, said: unknown, expected: unknown): boolean => {
    history.push(`${what} → ${JSON.stringify(said)}`)
    const same = setClock
      ? isDeepStrictEqual(said, expected)
      : isDeepStrictEqual(withoutMoments(said), withoutMoments(expected))
    if (same) return true
    t.same(said, expected, `seed ${seed}, step ${history.length}: ${what}`)
    t.comment(`seed ${seed}:\n${history.slice(-30).join('\n')}`)
    return false
  }

  const answers = new Map<string, unknown>()
  const versions = [model.version]
  const make = async (change: CatalogChange): Promise<boolean> => {
    const what = `change ${JSON.stringify(change)}`
    const expected = model.change(change)
    const said = await catalog.change(change)
    const before = answers.get(change.token)
    answers.set(change.token, said)
    if (expected === undefined) return agree(what, said, before)
    if (expected.state === 'conflict') return agree(what, said, expected)
    const version = said.state === 'done' ? said.version : 'a conflict'
    if (expected.isNew) {
      if (!agree(`${what}: another version`, versions.includes(version), false)) return false
      versions.push(version)
      model.version = version
    }
    return agree(what, said, { state: 'done', version: model.version })
  }

  const moves: Record<string, () => Promise<boolean>> = {
    change: () => make(draw.change(versions)),
    again: () => make(draw.again(versions)),
    async note() {
      const { token, note } = draw.note()
      model.note(token, note)
      return agree(`note ${token}`, await catalog.note(token, note), undefined)
    },
    async wait() {
      if (!setClock) return true
      model.nowMs += dice.one([1, 1000, 599_999, 600_000])
      setClock(model.nowMs)
      return true
    },
  }

  for (let step = 0; step < steps; ) {
    const until = step + 1 + dice.below(MAX_STEPS_BETWEEN_LOOKS)
    for (; step < until; step++) if (!(await moves[dice.one(OFTEN)]!())) return false
    if (!(await compare(catalog, model, dice, agree))) return false
  }
  t.pass(`seed ${seed}: ${history.length} steps agree`)
  return true
}

async function compare(
  catalog: CatalogStore,
  model: CatalogModel,
  dice: Dice,
  agree: (what: string, said: unknown, expected: unknown) => boolean,
): Promise<boolean> {
  const published = { version: model.version, records: model.published() }
  if (!agree('version', await catalog.version(), model.version)) return false
  if (!agree('published', await catalog.published(), published)) return false
  const below = () => dice.maybe(0.6, () => 1 + dice.below(12)) ?? null
  for (const record of [...RECORDS, ...FOREIGN]) {
    const what = JSON.stringify(record)
    if (!agree(`get ${what}`, await catalog.get(record), model.get(record))) return false
    const page = [below(), 1 + dice.below(6)] as const
    const versions = await catalog.versions(record, ...page)
    if (!agree(`versions ${what} ${page}`, versions, model.versions(record, ...page))) return false
    const number = dice.below(8)
    const [version = null] = model.versions(record, number + 1, 1).filter((one) => one.number === number)
    if (!agree(`version ${number} of ${what}`, await catalog.versionOf(record, number), version)) return false
  }
  for (const workspace of WORKSPACES) {
    if (!agree(`list ${workspace}`, await catalog.list(workspace), model.list(workspace).map(listed)))
      return false
    const page = [dice.maybe(0.6, () => 1 + dice.below(60)) ?? null, 1 + dice.below(9)] as const
    const lines = await catalog.audit(workspace, ...page)
    if (!agree(`audit ${workspace} ${page}`, lines, model.audit(workspace, ...page))) return false
  }
  return true
}

const listed = ({ draft, published, ...record }: CatalogRecord) => ({
  ...record,
  hasDraft: draft !== null,
  isPublished: published !== null,
})

/** Everything that is drawn: mostly what makes sense, and what came before again, and what belongs to others. */
function drawing(dice: Dice, model: CatalogModel) {
  const sent: CatalogChange[] = []
  const notes: { token: string; note: AuditNote }[] = []

  const revisionOf = (record: RecordName): number | null => {
    const revision = model.get(record)?.draft?.revision ?? null
    if (dice.chance(0.8)) return revision
    return dice.one([null, 1, (revision ?? 0) + 1, (revision ?? 2) - 1])
  }
  const stepOf = (): CatalogStep => {
    const record = dice.chance(0.9) ? dice.one(RECORDS) : dice.one(FOREIGN)
    const fields = { n: dice.below(1000) }
    const what = dice.below(10)
    if (what < 4) return draft(record, fields, revisionOf(record))
    if (what < 5) return discard(record)
    if (what >= 8) return remove(record)
    const step = publish(record, fields, dice.maybe(0.3, () => 'why') ?? null)
    const keeps = dice.maybe(0.4, () => revisionOf(record))
    return typeof keeps === 'number' ? { ...step, keeps } : step
  }
  const noted = () => noteOf({ workspace: dice.one(WORKSPACES), detail: `${dice.below(1000)}` })
  const change = (versions: readonly string[]): CatalogChange => {
    const expected = dice.maybe(0.5, () => (dice.chance(0.7) ? model.version : dice.one(versions))) ?? null
    const steps = Array.from({ length: dice.one([1, 1, 1, 2, 4]) }, stepOf)
    const audit = Array.from({ length: dice.below(3) }, noted)
    const made = changeOf(steps, { token: randomUUID(), expected, audit, by: dice.one([ANNA, CLI]) })
    sent.push(made)
    return made
  }

  return {
    change,
    /** One of the last ones, as it was sent or another with its token. */
    again(versions: readonly string[]): CatalogChange {
      if (sent.length === 0) return change(versions)
      const before = dice.one(sent.slice(-5))
      return dice.chance(0.8) ? before : { ...change(versions), token: before.token }
    },
    note(): { token: string; note: AuditNote } {
      const before = notes.slice(-5)
      if (before.length > 0 && dice.chance(0.3)) return dice.one(before)
      const made = { token: randomUUID(), note: noted() }
      notes.push(made)
      return made
    },
  }
}
