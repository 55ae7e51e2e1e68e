import { useEffect, useReducer, useRef } from 'preact/hooks'
import type { LiveFallback, Strategy } from '../../../../contracts/catalog.ts'
import type { EntryFields, RouteFields } from '../../../../gateway/catalog/file.ts'
import type { ModelsAnswer } from '../../../server/answers/providers.ts'
import type { RouteAnswer } from '../../../server/answers/routes.ts'
import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { type ApiError, api, isPassing, onSignedInAgain, toApiError } from '../../api.ts'

import { apiPath } from '../../paths.ts'

/** An entry while it is edited. */
export interface EditedEntry {
  /** Stays with the entry wherever it is moved. */
  readonly key: number
  readonly fields: EntryFields
  /** Fields with text that is not valid JSON: name of the field → why. They cannot be published. */
  readonly unread: Readonly<Record<string, string>>
}

/** A route while it is edited. Nothing of it is changed in place. */
export interface Editing {
  /** Fields that the page does not edit, kept as they came. */
  readonly rest: Omit<RouteFields, 'entries' | 'strategy' | 'published' | 'live_fallback'>
  readonly strategy: Strategy
  readonly published: boolean
  readonly liveFallback: LiveFallback
  readonly entries: readonly EditedEntry[]
  readonly nextKey: number
}

export type Edit =
  | { readonly do: 'load'; readonly fields: RouteFields }
  | { readonly do: 'strategy'; readonly strategy: Strategy }
  | { readonly do: 'live_fallback'; readonly liveFallback: LiveFallback }
  | { readonly do: 'published'; readonly published: boolean }
  | { readonly do: 'cache'; readonly cache: RouteFields['cache'] }
  | { readonly do: 'flag'; readonly name: 'encode' | 'skip_silence' | 'transcode'; readonly on: boolean }
  | { readonly do: 'shadow'; readonly shadow: RouteFields['shadow'] }
  | { readonly do: 'add'; readonly entry: EntryFields }
  | { readonly do: 'remove'; readonly key: number }
  | { readonly do: 'move'; readonly from: number; readonly to: number }
  /** A field that becomes undefined is left out of the entry. */
  | {
      readonly do: 'set'
      readonly key: number
      readonly change: EntryChange
      /** A field, beside the changed ones, whose text can be read again. */
      readonly read?: string
    }
  | { readonly do: 'unread'; readonly key: number; readonly field: string; readonly why: string }

export type EntryChange = { readonly [Name in keyof EntryFields]?: EntryFields[Name] | undefined }

/** Applies an edit to a route. Returns the same object when nothing changes. */
export function edited(editing: Editing, edit: Edit): Editing {
  const { entries, nextKey } = editing
  switch (edit.do) {
    case 'load':
      return editingOf(edit.fields, editing)
    case 'strategy':
      return edit.strategy === editing.strategy ? editing : { ...editing, strategy: edit.strategy }
    case 'live_fallback':
      return edit.liveFallback === editing.liveFallback
        ? editing
        : { ...editing, liveFallback: edit.liveFallback }
    case 'published':
      return edit.published === editing.published ? editing : { ...editing, published: edit.published }
    case 'flag': {
      const { [edit.name]: _, ...rest } = editing.rest
      return { ...editing, rest: edit.on ? { ...rest, [edit.name]: true } : rest }
    }
    case 'cache': {
      const { cache: _, ...rest } = editing.rest
      return { ...editing, rest: edit.cache === undefined ? rest : { ...rest, cache: edit.cache } }
    }
    case 'shadow': {
      const { shadow: _, ...rest } = editing.rest
      return { ...editing, rest: edit.shadow === undefined ? rest : { ...rest, shadow: edit.shadow } }
    }
    case 'add': {
      const entry = { key: nextKey, fields: edit.entry, unread: {} }
      return { ...editing, entries: [...entries, entry], nextKey: nextKey + 1 }
    }
    case 'remove':
      return { ...editing, entries: entries.filter(({ key }) => key !== edit.key) }
    case 'move': {
      const order = moved(entries, edit.from, edit.to)
      return order === entries ? editing : { ...editing, entries: order }
    }
    case 'set':
      return withEntry(editing, edit.key, ({ fields, unread }) => ({
        fields: changedFields(fields, edit.change),
        unread: without(unread, [...Object.keys(edit.change), edit.read ?? '']),
      }))
    case 'unread':
      return withEntry(editing, edit.key, ({ unread }) => ({ unread: { ...unread, [edit.field]: edit.why } }))
  }
}

/**
 * A route as it comes, ready to be edited. Entries that are what they were before, in the same place, keep their keys;
 * the others get new ones, so that no field keeps showing what was typed into it. A draft may have any issues, also
 * to have no entries at all.
 */
export function editingOf(fields: RouteFields, before?: Editing): Editing {
  const {
    entries: list,
    strategy = 'priority',
    published = true,
    live_fallback: liveFallback = 'none',
    ...rest
  } = fields
  const entries = Array.isArray(list) ? (list as readonly EntryFields[]) : []
  const first = before?.nextKey ?? 0
  const keys = entries.map((entry, index) => {
    const old = before?.entries[index]
    const isSame = old !== undefined && canonical(old.fields) === canonical(entry) && isRead(old)
    return isSame ? old.key : first + index
  })
  return {
    rest,
    strategy,
    published,
    liveFallback,
    entries: entries.map((entry, index) => ({ key: keys[index] ?? index, fields: entry, unread: {} })),
    nextKey: Math.max(first, ...keys.map((key) => key + 1), 0),
  }
}

/** The route as it would be saved, without defaults. */
export function routeFields({ rest, strategy, published, liveFallback, entries }: Editing): RouteFields {
  return {
    ...rest,
    ...(strategy === 'priority' ? {} : { strategy }),
    ...(published ? {} : { published }),
    ...(liveFallback === 'none' ? {} : { live_fallback: liveFallback }),
    entries: entries.map(({ fields }) => fields),
  }
}

/** True if two routes are equal, whatever the order of keys and however defaults are written. */
export function saysTheSame(a: RouteFields, b: RouteFields): boolean {
  return canonical(routeFields(editingOf(a))) === canonical(routeFields(editingOf(b)))
}

/** JSON with sorted keys, so that equal values have equal text. */
function canonical(value: unknown): string {
  const sorted = (_key: string, part: unknown): unknown =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part
  return JSON.stringify(value, sorted)
}

function isRead({ unread }: EditedEntry): boolean {
  return Object.keys(unread).length === 0
}

function withEntry(
  editing: Editing,
  key: number,
  change: (entry: EditedEntry) => Partial<EditedEntry>,
): Editing {
  const entries = editing.entries.map((entry) => (entry.key === key ? { ...entry, ...change(entry) } : entry))
  return { ...editing, entries }
}

function changedFields(fields: EntryFields, change: EntryChange): EntryFields {
  const all = Object.entries({ ...fields, ...change }).filter(([, value]) => value !== undefined)
  return Object.fromEntries(all) as EntryFields
}

function without(unread: EditedEntry['unread'], names: readonly string[]): EditedEntry['unread'] {
  return Object.fromEntries(Object.entries(unread).filter(([name]) => !names.includes(name)))
}

/** Moves the element at `from` to `to`. */
export function moved<Item>(list: readonly Item[], from: number, to: number): readonly Item[] {
  const item = list[from]
  if (item === undefined || from === to) return list
  const rest = list.filter((_, index) => index !== from)
  return [...rest.slice(0, to), item, ...rest.slice(to)]
}

/** Where an element goes by a key that is pressed on its handle; null: the key means nothing here. */
export function placeByKey(key: string, from: number, count: number): number | null {
  switch (key) {
    case 'ArrowUp':
      return Math.max(0, from - 1)
    case 'ArrowDown':
      return Math.min(count - 1, from + 1)
    case 'Home':
      return 0
    case 'End':
      return count - 1
    default:
      return null
  }
}

/** Extent of an element before anything was dragged, pixels from the top of the page. */
export interface Extent {
  readonly top: number
  readonly height: number
}

/**
 * Where an element that is dragged by `dy` pixels would be if it were dropped now: it changes places with a neighbour
 * when its leading edge passes that one's middle, so that elements of different heights never flicker.
 */
export function placeByDrag(extents: readonly Extent[], from: number, dy: number): number {
  const dragged = extents[from]
  if (dragged === undefined) return from
  const top = dragged.top + dy
  const bottom = top + dragged.height
  let to = from
  for (const [index, { top: start, height }] of extents.entries()) {
    const middle = start + height / 2
    if (index < from && top < middle) return index
    if (index > from && bottom > middle) to = index
  }
  return to
}

/** How far each element has to be shown from its place while another is dragged from `from` to `to`, pixels. */
export function shifts(extents: readonly Extent[], from: number, to: number): readonly number[] {
  const gap = gapOf(extents)
  const size = (extents[from]?.height ?? 0) + gap
  return extents.map((_, index) => {
    if (index === from) return 0
    if (index > from && index <= to) return -size
    return index < from && index >= to ? size : 0
  })
}

/** Where the dragged element itself belongs, from its first place, pixels. */
export function landing(extents: readonly Extent[], from: number, to: number): number {
  const gap = gapOf(extents)
  const between = to > from ? extents.slice(from + 1, to + 1) : extents.slice(to, from)
  const distance = between.reduce((sum, { height }) => sum + height + gap, 0)
  return to > from ? distance : -distance
}

function gapOf(extents: readonly Extent[]): number {
  const [first, second] = extents
  return first === undefined || second === undefined ? 0 : second.top - first.top - first.height
}

/** The server's draft compared with the screen. */
export interface Saving {
  /** The server's latest answer. */
  readonly known: RouteAnswer
  /** The fields being saved. */
  readonly sending: RouteFields | null
  /** Why the last save failed; null: it did not. */
  readonly failed: ApiError | null
  /** The draft as another person has changed it; the reader must decide which to keep. */
  readonly conflict: RouteAnswer | null
}

export type SavingEvent =
  | { readonly is: 'known'; readonly answer: RouteAnswer }
  | { readonly is: 'sent'; readonly fields: RouteFields }
  | { readonly is: 'failed'; readonly error: ApiError }
  | { readonly is: 'conflict'; readonly theirs: RouteAnswer }
  /** Keeps the draft on the screen, over the other's. */
  | { readonly is: 'mine' }
  | { readonly is: 'again' }

type SavePhase = 'same' | 'unsaved' | 'saving' | 'failed' | 'conflict'

export function savingOf(known: RouteAnswer): Saving {
  return { known, sending: null, failed: null, conflict: null }
}

export function savingAfter(saving: Saving, event: SavingEvent): Saving {
  switch (event.is) {
    case 'known':
      return savingOf(event.answer)
    case 'sent':
      return { ...saving, sending: event.fields, failed: null }
    case 'failed':
      return { ...saving, sending: null, failed: event.error }
    case 'conflict':
      return { ...saving, sending: null, failed: null, conflict: event.theirs }
    case 'mine':
      return saving.conflict === null ? saving : savingOf(saving.conflict)
    case 'again':
      return { ...saving, failed: null }
  }
}

/** The route to edit: the draft, else the published version. */
export function keptFields({ draft, published, workspace }: RouteAnswer): RouteFields {
  return draft?.fields ?? published?.fields ?? { workspace, entries: [] }
}

/** @param fields on the screen */
export function phaseOf({ known, sending, failed, conflict }: Saving, fields: RouteFields): SavePhase {
  if (conflict !== null) return 'conflict'
  if (sending !== null) return 'saving'
  if (saysTheSame(keptFields(known), fields)) return 'same'
  return failed === null ? 'unsaved' : 'failed'
}

/** The revision that the next save replaces; null: there is no draft. */
export function revisionOf({ known }: Saving): number | null {
  return known.draft?.revision ?? null
}

/** Names who changed the route since it was known, and how, to decide a conflict. */
export function changedBy(
  { draft, published }: RouteAnswer,
  known: RouteAnswer,
): {
  readonly name: string | null
  readonly at: string | null
  readonly did: 'saved' | 'published' | 'removed'
} {
  if (draft && draft.revision !== known.draft?.revision)
    return { name: draft.saved_by, at: draft.saved_at, did: 'saved' }
  if (published) return { name: published.published_by, at: published.published_at, did: 'published' }
  return { name: null, at: null, did: 'removed' }
}

/** Issues that keep a route from being published, by the field they belong to. */
export interface RouteIssues {
  /** Place of the entry → name of the field (`''`: the entry itself) → its issues, in order. */
  readonly entries: ReadonlyMap<number, ReadonlyMap<string, readonly string[]>>
  /** Name of a field of the route → its issues. */
  readonly fields: ReadonlyMap<string, readonly string[]>
  /** Issues of the route as a whole, or of something else. */
  readonly others: readonly string[]
}

/**
 * Reads lines such as `/entries/0/model: is not in the built-in table`, with or without `/routes/<name>` before it.
 *
 * @param route its whole name
 */
export function readIssues(lines: readonly string[], route: string): RouteIssues {
  const entries = new Map<number, Map<string, string[]>>()
  const fields = new Map<string, string[]>()
  const others: string[] = []
  for (const line of lines) {
    const { path, message } = split(line, route)
    const [head, second, third, ...deeper] = path
    const index = Number(second)
    if (head === 'entries' && second !== undefined && Number.isInteger(index)) {
      const ofEntry = entries.get(index) ?? new Map<string, string[]>()
      entries.set(index, ofEntry)
      addTo(ofEntry, third ?? '', deeper.length === 0 ? message : `${deeper.join(' → ')}: ${message}`)
    } else if (head !== undefined && ROUTE_FIELDS.includes(head)) addTo(fields, head, message)
    else others.push(head === undefined ? message : line)
  }
  return { entries, fields, others }
}

const ROUTE_FIELDS = [
  'entries',
  'strategy',
  'published',
  'live_fallback',
  'cache',
  'encode',
  'skip_silence',
  'transcode',
  'shadow',
  'workspace',
]

/** Issues of one field of an entry. */
export function entryIssues(issues: RouteIssues, index: number, field: string): readonly string[] {
  return issues.entries.get(index)?.get(field) ?? []
}

/** How many issues an entry has in all. */
export function issueCount(issues: RouteIssues, index: number): number {
  return [...(issues.entries.get(index)?.values() ?? [])].reduce((sum, lines) => sum + lines.length, 0)
}

function split(line: string, route: string): { path: readonly string[]; message: string } {
  const end = line.indexOf(': ')
  if (!line.startsWith('/') || end < 0) return { path: [], message: line }
  const path = line
    .slice(0, end)
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .filter((part) => part !== '')
  const own = path[0] === 'routes' && path[1] === route
  return { path: own ? path.slice(2) : path, message: line.slice(end + 2) }
}

function addTo(map: Map<string, string[]>, name: string, message: string): void {
  map.set(name, [...(map.get(name) ?? []), message])
}

/** Long enough that a word is typed, short enough not to be noticed. */
export const SAVE_AFTER_MS = 700
const RETRY_AFTER_MS = 5_000

export interface Draft {
  readonly editing: Editing
  /** The screen's content, as it would be saved. */
  readonly fields: RouteFields
  readonly edit: (edit: Edit) => void
  readonly phase: SavePhase
  readonly saving: Saving
  /** Saves unsaved changes now; the saved route, or null if that failed. */
  readonly flush: () => Promise<RouteAnswer | null>
  /** Replaces the screen's content by an answer of the server, e.g. after publishing. */
  readonly load: (answer: RouteAnswer) => void
  /** Keeps the screen's content, over the other person's. */
  readonly keepMine: () => void
  /** Loads the route if the error says that another person changed it, and returns true if so. */
  readonly foundConflict: (error: ApiError) => Promise<boolean>
}

/** A draft that saves itself a little after each change, one save after the other. */
export function useDraft(initial: RouteAnswer): Draft {
  const [editing, edit] = useReducer(edited, initial, (answer) => editingOf(keptFields(answer)))
  const [saving, step] = useReducer(savingAfter, initial, savingOf)
  const fields = routeFields(editing)
  const phase = phaseOf(saving, fields)
  const place = apiPath`/workspaces/${initial.workspace}/routes/${initial.name}`
  const readOnly = initial.managed_by === 'file'
  const running = useRef<Promise<RouteAnswer | null>>(Promise.resolve(null))
  const latest = useRef({ saving, fields, phase })
  latest.current = { saving, fields, phase }

  const foundConflict = async (error: ApiError) => {
    if (error.status !== 409) return false
    step({ is: 'conflict', theirs: await api.get<RouteAnswer>(place) })
    return true
  }
  const save = async (fields: RouteFields, revision: number | null) => {
    step({ is: 'sent', fields })
    try {
      const answer = await api.put<RouteAnswer>(`${place}/draft`, { fields, revision })
      step({ is: 'known', answer })
      return answer
    } catch (thrown) {
      const error = toApiError(thrown)
      if (!(await foundConflict(error).catch(() => false))) step({ is: 'failed', error })
      return null
    }
  }
  const flush = () => {
    running.current = running.current.then(() => {
      const { phase, saving, fields } = latest.current
      if (phase === 'same') return saving.known
      return phase === 'conflict' ? null : save(fields, revisionOf(saving))
    })
    return running.current
  }

  useEffect(() => {
    if (phase !== 'unsaved' || readOnly) return
    // Cleared when the page is painted, and a save may have begun before: it is one of the chain.
    const timer = setTimeout(flush, SAVE_AFTER_MS)
    return () => clearTimeout(timer)
  }, [editing, phase, readOnly])
  useRetry(phase === 'failed' ? saving.failed : null, () => step({ is: 'again' }))
  // A save that failed is tried again by the next change.
  useEffect(() => step({ is: 'again' }), [editing])

  return {
    editing,
    fields,
    edit,
    phase,
    saving,
    flush,
    load: (answer) => {
      step({ is: 'known', answer })
      edit({ do: 'load', fields: keptFields(answer) })
    },
    keepMine: () => step({ is: 'mine' }),
    foundConflict,
  }
}

/** Retries a temporary failure: when the connection or session is back, and every few seconds. */
function useRetry(failed: ApiError | null, again: () => void): void {
  useEffect(() => {
    if (failed === null || !isPassing(failed)) return
    const timer = failed.status === 401 ? undefined : setTimeout(again, RETRY_AFTER_MS)
    const forget = onSignedInAgain(again)
    addEventListener('online', again)
    return () => {
      clearTimeout(timer)
      forget()
      removeEventListener('online', again)
    }
  }, [failed])
}

/** Data needed to edit a route. */
export interface ViewContext {
  readonly models: ModelsAnswer
  readonly workspace: WorkspaceAnswer
}
