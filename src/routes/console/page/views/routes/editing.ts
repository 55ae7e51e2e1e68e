import type { EntryFields, RouteFields } from '../../../../../catalog/file.ts'
import type { Strategy } from '../../../../../schema/catalog.ts'
import { moved } from './order.ts'

/** An entry while it is edited. */
export interface EditedEntry {
  /** Stays with the entry wherever it is moved. */
  readonly key: number
  readonly fields: EntryFields
  /** What was typed into a field of JSON and is none: name of the field → why. It cannot be published. */
  readonly unread: Readonly<Record<string, string>>
}

/** A route while it is edited. Nothing of it is changed in place. */
export interface Editing {
  /** What the page does not edit, kept as it came. */
  readonly rest: Omit<RouteFields, 'entries' | 'strategy' | 'published'>
  readonly strategy: Strategy
  readonly published: boolean
  readonly entries: readonly EditedEntry[]
  readonly nextKey: number
}

export type Edit =
  | { readonly do: 'load'; readonly fields: RouteFields }
  | { readonly do: 'strategy'; readonly strategy: Strategy }
  | { readonly do: 'published'; readonly published: boolean }
  | { readonly do: 'add'; readonly entry: EntryFields }
  | { readonly do: 'remove'; readonly key: number }
  | { readonly do: 'move'; readonly from: number; readonly to: number }
  /** A field that becomes undefined is left out of the entry. */
  | {
      readonly do: 'set'
      readonly key: number
      readonly change: EntryChange
      /** What can be read again by it, beside the fields themselves. */
      readonly read?: string
    }
  | { readonly do: 'unread'; readonly key: number; readonly field: string; readonly why: string }

export type EntryChange = { readonly [Name in keyof EntryFields]?: EntryFields[Name] | undefined }

/** The whole of what editing does to a route. Answers the same object when nothing changes. */
export function edited(editing: Editing, edit: Edit): Editing {
  const { entries, nextKey } = editing
  switch (edit.do) {
    case 'load':
      return editingOf(edit.fields, editing)
    case 'strategy':
      return edit.strategy === editing.strategy ? editing : { ...editing, strategy: edit.strategy }
    case 'published':
      return edit.published === editing.published ? editing : { ...editing, published: edit.published }
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
 * the others get new ones, so that no field goes on showing what was typed into it. A draft may have any faults, also
 * to have no entries at all.
 */
export function editingOf(fields: RouteFields, before?: Editing): Editing {
  const { entries: list, strategy = 'priority', published = true, ...rest } = fields
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
    entries: entries.map((entry, index) => ({ key: keys[index] ?? index, fields: entry, unread: {} })),
    nextKey: Math.max(first, ...keys.map((key) => key + 1), 0),
  }
}

/** The route as it would be saved: what is as it would be anyway is left out. */
export function fieldsOf({ rest, strategy, published, entries }: Editing): RouteFields {
  return {
    ...rest,
    ...(strategy === 'priority' ? {} : { strategy }),
    ...(published ? {} : { published }),
    entries: entries.map(({ fields }) => fields),
  }
}

/** Whether two routes say the same, whatever the order of their keys and however their defaults are written. */
export function saysTheSame(a: RouteFields, b: RouteFields): boolean {
  return canonical(fieldsOf(editingOf(a))) === canonical(fieldsOf(editingOf(b)))
}

/** JSON with the keys of every object in one order, so that equal values are equal texts. */
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
