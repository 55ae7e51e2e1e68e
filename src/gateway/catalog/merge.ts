import { RECORD_KINDS, type RecordFields, type RecordName, recordId } from '../../contracts/catalog-store.ts'
import { CatalogHead } from './file.ts'
import type { Issue, Path } from './issues.ts'
import { at, isNamedList } from './parts.ts'
import { kept } from './sharing.ts'

/** A part of the catalog that is not in the file. */
export type MergedRecord = RecordName & { readonly fields: RecordFields }

/** Origin of a part of the merged document. */
interface Owned<Source> {
  readonly record: Source
  /** Path within the record. */
  readonly path: Path
}

export interface Merged<Source> {
  /** As a file would have it. */
  readonly document: Readonly<Record<string, unknown>>
  /** Finds the record that a path belongs to; null: the file's own part. */
  readonly ownerOf: (path: Path) => Owned<Source> | null
  /** Records without effect, since the file defines what they are named. */
  readonly shadowed: readonly Source[]
  /** Records that no document could hold; they are left out. Paths begin at the record. */
  readonly misfits: ReadonlyMap<Source, Issue>
}

/** Members of a workspace in the file that are none of its record: they have records, or a place, of their own. */
const NOT_OF_WORKSPACE = ['apps', 'keys', 'purposes']
/** `file:` with a relative path, which would be another file on every node. */
const RELATIVE_FILE = /^file:(?!\/)/

/**
 * The document that a file and records make together. What the file names wins, name by name; apps and purposes may be
 * added to a workspace of the file. Nothing is judged that `buildSnapshot` judges.
 *
 * @param file of the right shape, or the issues of the result are those of the file, too
 */
export function mergeCatalog<Source extends MergedRecord>(
  file: unknown,
  records: readonly Source[],
): Merged<Source> {
  const merge = new Merge<Source>(file)
  // A workspace before what is in it.
  const rank = (record: Source) => RECORD_KINDS.indexOf(record.kind)
  for (const record of [...records].sort((a, b) => rank(a) - rank(b) || byId(a, b))) merge.add(record)
  return merge.merged()
}

function byId(a: RecordName, b: RecordName): number {
  return recordId(a) < recordId(b) ? -1 : 1
}

type List = Record<string, unknown>

/** Workspaces as they were merged last, by those of the document: one that is the same again stays identical. */
const mergedWorkspaces = new WeakMap<object, List>()

class Merge<Source extends MergedRecord> {
  /** Everything in it that is changed was copied before. */
  readonly #document: List
  readonly #copied = new Set<unknown>()
  /** Workspaces that were changed, as they were before. */
  readonly #workspaces = new Map<string, object>()
  /** By where they lead, as `pathKey` has it. */
  readonly #owners = new Map<string, { readonly record: Source; readonly depth: number }>()
  readonly #shadowed: Source[] = []
  readonly #misfits = new Map<Source, Issue>()

  constructor(file: unknown) {
    this.#document = mergedList(file)
  }

  add(record: Source): void {
    const misfit = misfitOf(record)
    if (misfit !== null) this.#misfits.set(record, misfit)
    else if (record.kind === 'head') this.#addHead(record)
    else if (record.kind === 'app' || record.kind === 'purpose') this.#addToWorkspace(record)
    else this.#put([`${record.kind}s`], record)
  }

  merged(): Merged<Source> {
    for (const [name, given] of this.#workspaces) {
      const list = this.#document.workspaces as List
      const one = kept(mergedWorkspaces.get(given), list[name] as List)
      define(list, name, one)
      mergedWorkspaces.set(given, one)
    }
    return {
      document: this.#document,
      ownerOf: (path) => this.#ownerOf(path),
      shadowed: this.#shadowed,
      misfits: this.#misfits,
    }
  }

  #addHead(record: Source): void {
    const free = Object.keys(record.fields).filter((name) => !Object.hasOwn(this.#document, name))
    for (const name of free) {
      define(this.#document, name, record.fields[name])
      this.#owners.set(pathKey([name]), { record, depth: 0 })
    }
    if (free.length === 0 && Object.keys(record.fields).length > 0) this.#shadowed.push(record)
  }

  #addToWorkspace(record: Source): void {
    const workspace = record.workspace ?? ''
    if (at(at(this.#document, 'workspaces'), workspace) === undefined)
      this.#misfits.set(record, { path: ['workspace'], message: `there is no workspace "${workspace}"` })
    else this.#put(['workspaces', workspace, `${record.kind}s`], record)
  }

  #put(path: readonly string[], record: Source): void {
    const list = this.#listAt(path)
    if (Object.hasOwn(list, record.name)) {
      this.#shadowed.push(record)
      return
    }
    define(list, record.name, record.fields)
    this.#owners.set(pathKey([...path, record.name]), { record, depth: path.length + 1 })
  }

  /** The list that the path leads to, to be changed; made when there is none. */
  #listAt(path: readonly string[]): List {
    let list = this.#document
    for (const name of path) {
      let inner = at(list, name)
      if (!this.#copied.has(inner)) {
        if (list === this.#document.workspaces && isNamedList(inner)) this.#workspaces.set(name, inner)
        inner = mergedList(inner)
        this.#copied.add(inner)
        define(list, name, inner)
      }
      list = inner as List
    }
    return list
  }

  #ownerOf(path: Path): Owned<Source> | null {
    for (let depth = path.length; depth > 0; depth--) {
      const owner = this.#owners.get(pathKey(path.slice(0, depth)))
      if (owner !== undefined) return { record: owner.record, path: path.slice(owner.depth) }
    }
    return null
  }
}

function pathKey(path: Path): string {
  return path.join('\n')
}

/** Copies an object; anything else becomes an empty one. */
function mergedList(value: unknown): List {
  return isNamedList(value) ? { ...value } : {}
}

/** Also `__proto__`, which then is refused as a name. */
function define(list: List, name: string, value: unknown): void {
  if (name !== '__proto__') list[name] = value
  else Object.defineProperty(list, name, { value, enumerable: true, configurable: true, writable: true })
}

/** Why no document could hold the record; null: one could. */
function misfitOf({ kind, workspace, name, fields }: MergedRecord): Issue | null {
  const noSuchKey = (key: string): Issue => ({
    path: [key],
    message: 'is not a known key; remove it or correct its spelling',
  })
  if (kind === 'head') {
    const unknown = Object.keys(fields).find((key) => !Object.hasOwn(CatalogHead.properties, key))
    if (unknown !== undefined) return noSuchKey(unknown)
    const secret = at(at(fields.console, 'oidc'), 'client_secret')
    return isRelativeFile(secret) ? absolutePath(['console', 'oidc', 'client_secret']) : null
  }
  if (kind === 'workspace') {
    const foreign = NOT_OF_WORKSPACE.find((key) => Object.hasOwn(fields, key))
    if (foreign !== undefined) return noSuchKey(foreign)
    return workspace === name ? null : { path: [], message: 'a workspace is its own owner' }
  }
  if (kind === 'route' || kind === 'provider') {
    if ((fields.workspace ?? null) !== workspace)
      return {
        path: ['workspace'],
        message: workspace === null ? 'must not be there' : `must be ${workspace}`,
      }
    if (isRelativeFile(fields.api_key)) return absolutePath(['api_key'])
  }
  return null
}

function isRelativeFile(reference: unknown): boolean {
  return typeof reference === 'string' && RELATIVE_FILE.test(reference)
}

function absolutePath(path: Path): Issue {
  return { path, message: 'must be an absolute path: every node reads it' }
}
