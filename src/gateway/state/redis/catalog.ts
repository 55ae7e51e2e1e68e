import {
  type AuditLine,
  type AuditNote,
  type CatalogChanged,
  type CatalogEntry,
  type CatalogRecord,
  type CatalogStep,
  type CatalogStore,
  type PublishedCatalog,
  type RecordDraft,
  type RecordKind,
  type RecordName,
  type RecordVersion,
  recordId,
} from '../../../contracts/catalog-store.ts'
import type { StoredModels } from '../../../contracts/models.ts'
import { keys } from './key-names.ts'
import { type Ask, replyInteger, replyText, replyTexts, script } from './script.ts'

/** How long a change may be sent again. */
const KNOWN_MS = 600_000
/** Most versions, or lines of the audit list, in one page. */
const PAGE_MAX = 1000

const shared = { keys: ['catalog', 'never'], steps: 'catalog/catalog_steps' } as const

const changeCatalog = script('catalog/change_catalog', {
  ...shared,
  args: ['token', 'expected', 'steps', 'audit', 'token_ms'],
  reply: (reply): CatalogChanged =>
    reply === '' ? { state: 'conflict' } : { state: 'done', version: replyText(reply as string) },
})

const noteChange = script('catalog/note_change', {
  ...shared,
  args: ['token', 'workspace', 'json', 'token_ms'],
})

const putModels = script('catalog/put_models', {
  ...shared,
  args: ['token', 'models', 'workspace', 'json', 'token_ms'],
})

const publishedCatalog = script('catalog/published_catalog', {
  ...shared,
  reply: (reply): PublishedCatalog => {
    const [version, ...items] = replyTexts(reply)
    const records = textRows(items, 3).map(([id, owner, published]) => ({
      ...recordNameOf(replyText(id), replyText(owner)),
      ...versionOf(replyText(published)),
    }))
    return { version: replyText(version), records: records.sort(byId) }
  },
})

const showRecord = script('catalog/show_record', {
  ...shared,
  args: ['id', 'owner'],
  reply: (reply) => {
    const texts = replyTexts(reply)
    return texts.length === 0 ? null : { draft: texts[0], published: texts[1] }
  },
})

const listRecords = script('catalog/list_records', {
  ...shared,
  args: ['owner'],
  reply: (reply): readonly CatalogEntry[] =>
    textRows(replyTexts(reply), 4)
      .map(([id, owner, draft, published]) => {
        const record = recordNameOf(replyText(id), replyText(owner))
        return { ...record, hasDraft: draft === '1', isPublished: published === '1' }
      })
      .sort(byId),
})

const listAudit = script('catalog/list_audit', {
  ...shared,
  args: ['workspace', 'below', 'limit'],
  reply: (reply): readonly AuditLine[] => replyTexts(reply).map((line) => auditLine(replyText(line))),
})

/** The catalog that is made in the console, in Redis: in one place, because every node reads all of it. */
export function createRedisCatalog(ask: Ask): CatalogStore {
  const places = { catalog: keys.catalog, never: keys.noCatalog }
  return {
    version: () =>
      ask(async (redis) => {
        const [count, changedAt] = await redis.hmget(keys.catalog, 'count', 'changed_at')
        return `${count ?? 0}-${changedAt ?? 0}`
      }),
    published: () => ask(publishedCatalog(places)),
    get: (record) =>
      ask(async (redis) => {
        const { kind, workspace, name } = record
        const asked = { id: recordId(record), owner: ownerOf(workspace) }
        const found = await showRecord({ ...places, ...asked })(redis)
        return found && recordOf({ kind, workspace, name }, found.draft, found.published)
      }),
    list: (workspace) => ask(listRecords({ ...places, owner: ownerOf(workspace) })),
    versions: (record, below, limit) =>
      ask(async (redis) => {
        const from = below === null ? '+inf' : below - 1
        const page = ['LIMIT', 0, Math.min(limit, PAGE_MAX)] as const
        const texts = await redis.zrevrangebyscore(versionsOf(record), from, '-inf', ...page)
        return texts.map(versionOf)
      }),
    versionOf: (record, number) =>
      ask(async (redis) => {
        const [text] = await redis.zrangebyscore(versionsOf(record), number, number)
        return text === undefined ? null : versionOf(text)
      }),
    change: ({ token, expected, steps, by, audit }) => {
      const wanted = {
        ...{ token, expected: expected ?? '', token_ms: KNOWN_MS },
        steps: JSON.stringify(steps.map((step) => stepTexts(step, by))),
        audit: JSON.stringify(audit.map(noteTexts)),
      }
      return ask(changeCatalog({ ...places, ...wanted }))
    },
    note: (token, note) => {
      const [workspace = '', json = ''] = noteTexts(note)
      return ask(noteChange({ ...places, token, workspace, json, token_ms: KNOWN_MS }))
    },
    models: () =>
      ask(async (redis) => {
        const text = await redis.get(keys.catalogModels)
        return text === null ? null : (JSON.parse(text) as StoredModels)
      }),
    putModels: (token, models, note) => {
      const [workspace = '', json = ''] = noteTexts(note)
      const text = models === null ? '' : JSON.stringify(models)
      const asked = { token, models: text, workspace, json, token_ms: KNOWN_MS }
      return ask(putModels({ ...places, ...asked }))
    },
    audit: (workspace, below, limit) => {
      const page = { below: below ?? '', limit: Math.min(limit, PAGE_MAX) }
      return ask(listAudit({ ...places, workspace: ownerOf(workspace), ...page }))
    },
  }
}

function versionsOf(record: RecordName): string {
  return keys.catalogVersions(ownerOf(record.workspace), recordId(record))
}

/** As the scripts read it: whose line it is, and the line. */
function noteTexts({ by, action, workspace, target, before, after, detail }: AuditNote): string[] {
  const line = { by, action, workspace, target, before, after, detail }
  return [ownerOf(workspace), JSON.stringify(line)]
}

/** Every `width` texts are a row. */
function textRows(texts: readonly (string | null)[], width: number): (string | null)[][] {
  return Array.from({ length: texts.length / width }, (_, i) => texts.slice(width * i, width * (i + 1)))
}

function byId(one: RecordName, other: RecordName): number {
  return recordId(one) < recordId(other) ? -1 : 1
}

/** As the scripts have it: no workspace, and no id of one, is empty. */
const ownerOf = (workspace: string | null): string => workspace ?? ''

/** A step as `change_catalog.lua` reads it: what it does, id, owner, JSON, revision. */
function stepTexts(step: CatalogStep, by: RecordDraft['by']): readonly string[] {
  const { record } = step
  const head = [step.do, recordId(record), ownerOf(record.workspace)]
  if (step.do === 'draft') {
    const { fields, revision } = step
    return [...head, JSON.stringify({ fields, by }), revision === null ? '' : String(revision)]
  }
  if (step.do !== 'publish') return [...head, '', '']
  const { fields, hash, note, keeps = '' } = step
  return [...head, JSON.stringify({ fields, hash, by, note }), String(keeps)]
}

/** Ids name kind and name; of what is named within a workspace the owner stands between them. */
function recordNameOf(id: string, owner: string): RecordName {
  const kind = id.slice(0, id.indexOf('/')) as RecordKind
  const workspace = owner === '' ? null : owner
  return { kind, workspace, name: id.slice(recordId({ kind, workspace, name: '' }).length) }
}

function recordOf(
  name: RecordName,
  draft: string | null | undefined,
  published: string | null | undefined,
): CatalogRecord {
  return {
    ...name,
    draft: typeof draft === 'string' ? draftOf(draft) : null,
    published: typeof published === 'string' ? versionOf(published) : null,
  }
}

function draftOf(text: string): RecordDraft {
  const { number: revision, atMs, value } = stampedIn<Pick<RecordDraft, 'fields' | 'by'>>(text)
  return { ...value, revision, atMs }
}

function versionOf(text: string): RecordVersion {
  const { number, atMs, value } = stampedIn<Omit<RecordVersion, 'number' | 'atMs'>>(text)
  return { number, atMs, ...value }
}

function auditLine(text: string): AuditLine {
  const { number, atMs, value } = stampedIn<Omit<AuditLine, 'number' | 'atMs'>>(text)
  return { number, atMs, ...value }
}

/** `<number> <epoch milliseconds> <JSON>`, written by the scripts alone. */
function stampedIn<Value>(text: string) {
  const [number, atMs] = text.split(' ', 2)
  const json = text.slice(replyText(number).length + replyText(atMs).length + 2)
  return { number: replyInteger(number), atMs: replyInteger(atMs), value: JSON.parse(json) as Value }
}
