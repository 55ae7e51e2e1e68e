import {
  type Actor,
  type AuditLine,
  type AuditNote,
  type CatalogChange,
  type CatalogRecord,
  type CatalogStep,
  type RecordDraft,
  type RecordName,
  type RecordVersion,
  recordId,
} from '../../../src/contracts/catalog-store.ts'

/** How long a change that is sent again is known for certain. */
const KNOWN_MS = 600_000

/** A step that was taken. */
type Taken = CatalogStep & { readonly id: string; readonly by: Actor; readonly atMs: number }

/** What a change comes to, and whether what is published is another after it. */
export type ModelAnswer = { readonly state: 'conflict' } | { readonly state: 'done'; readonly isNew: boolean }

/**
 * What a catalog is to do, told by the history of all steps instead of by records that are kept: slow, and so different
 * from a catalog that the two hardly make the same mistake. Versions of the whole are those of the catalog under test,
 * which the model is told.
 */
export class CatalogModel {
  nowMs: number
  /** Of the published catalog. */
  version: string
  #history: readonly Taken[] = []
  readonly #lines: AuditLine[] = []
  readonly #noted = new Map<string, number>()
  readonly #answered = new Map<string, { readonly answer: ModelAnswer; readonly atMs: number }>()

  constructor(nowMs: number, version: string) {
    this.nowMs = nowMs
    this.version = version
  }

  /** Undefined: it was made before, and is answered as it was then. */
  change({ token, expected, steps, by, audit }: CatalogChange): ModelAnswer | undefined {
    const before = this.#answered.get(token)
    if (before && this.nowMs - before.atMs < KNOWN_MS) return undefined
    const history = expected === null || expected === this.version ? this.#after(steps, by) : null
    const answer: ModelAnswer = history
      ? { state: 'done', isNew: this.#isNew(history) }
      : { state: 'conflict' }
    this.#answered.set(token, { answer, atMs: this.nowMs })
    if (!history) return answer
    this.#history = history
    for (const note of audit) this.#add(note)
    return answer
  }

  note(token: string, note: AuditNote): void {
    const atMs = this.#noted.get(token)
    if (atMs !== undefined && this.nowMs - atMs < KNOWN_MS) return
    this.#noted.set(token, this.nowMs)
    this.#add(note)
  }

  get(record: RecordName): CatalogRecord | null {
    const id = recordId(record)
    const owner = ownerIn(this.#history, id)
    if (owner === undefined || owner !== record.workspace) return null
    const draft = draftIn(this.#history, id)
    return { ...record, draft, published: publishedIn(this.#history, id) }
  }

  list(workspace: string | null): CatalogRecord[] {
    const lastMade = new Map(this.#history.filter(isMade).map(({ id, record }) => [id, record]))
    return [...lastMade.keys()].sort().flatMap((id) => {
      const found = this.get(lastMade.get(id)!)
      const isOf = workspace === null || found?.workspace === workspace
      return found && isOf && (found.draft || found.published) ? [found] : []
    })
  }

  published(): (RecordName & RecordVersion)[] {
    return this.list(null).flatMap(({ draft: _, published, ...record }) =>
      published ? [{ ...record, ...published }] : [],
    )
  }

  versions(record: RecordName, below: number | null, limit: number): RecordVersion[] {
    const id = recordId(record)
    return versionsIn(this.#history, id)
      .filter(({ owner, version }) => owner === record.workspace && version.number < (below ?? Infinity))
      .map(({ version }) => version)
      .reverse()
      .slice(0, limit)
  }

  audit(workspace: string | null, below: number | null, limit: number): AuditLine[] {
    return this.#lines
      .filter(
        (line) => (workspace === null || line.workspace === workspace) && line.number < (below ?? Infinity),
      )
      .reverse()
      .slice(0, limit)
  }

  #add(note: AuditNote): void {
    this.#lines.push({ number: this.#lines.length + 1, atMs: this.nowMs, ...note })
  }

  #isNew(history: readonly Taken[]): boolean {
    return history.slice(this.#history.length).some((step, i) => {
      if (step.do === 'publish') return true
      return step.do === 'remove' && publishedIn(history.slice(0, this.#history.length + i), step.id) !== null
    })
  }

  /** The history with these steps; null: one of them cannot be taken. */
  #after(steps: readonly CatalogStep[], by: Actor): readonly Taken[] | null {
    let history = this.#history
    for (const step of steps) {
      const id = recordId(step.record)
      const draft = draftIn(history, id)
      const stands = draft !== null || publishedIn(history, id) !== null
      if (stands && ownerIn(history, id) !== step.record.workspace) return null
      if (step.do === 'draft' && (draft?.revision ?? null) !== step.revision) return null
      if (keepsDraft(step) && draft?.revision !== step.keeps) return null
      history = [...history, { ...step, id, by, atMs: this.nowMs }]
    }
    return history
  }
}

/** It makes a record where there was none. */
const isMade = (step: CatalogStep) => step.do === 'draft' || step.do === 'publish'

const keepsDraft = <Step extends CatalogStep>(step: Step): step is Step & { do: 'publish'; keeps: number } =>
  step.do === 'publish' && step.keeps !== undefined

/** Undefined: there never was such a record. */
function ownerIn(history: readonly Taken[], id: string): string | null | undefined {
  return history.findLast((step) => step.id === id && isMade(step))?.record.workspace
}

function draftIn(history: readonly Taken[], id: string): RecordDraft | null {
  const own = history.filter((step) => step.id === id && !keepsDraft(step))
  const last = own.at(-1)
  if (last?.do !== 'draft') return null
  const revision = own.filter((step) => step.do === 'draft').length
  return { fields: last.fields, revision, atMs: last.atMs, by: last.by }
}

function versionsIn(history: readonly Taken[], id: string) {
  return history
    .flatMap((step) => (step.id === id && step.do === 'publish' ? [step] : []))
    .map(({ record, fields, hash, atMs, by, note }, i) => ({
      owner: record.workspace,
      version: { number: i + 1, fields, hash, atMs, by, note },
    }))
}

function publishedIn(history: readonly Taken[], id: string): RecordVersion | null {
  const last = history.findLast((step) => step.id === id && (step.do === 'publish' || step.do === 'remove'))
  return last?.do === 'publish' ? versionsIn(history, id).at(-1)!.version : null
}
