import {
  type AuditLine,
  type AuditNote,
  type CatalogChanged,
  type CatalogRecord,
  type CatalogStore,
  type PublishedCatalog,
  type RecordName,
  recordId,
} from '../../schema/catalog-store.ts'
import type { Ask } from './ask.ts'
import { lineOf, nameOf, ownerOf, recordOf, stepTexts, versionOf } from './catalog-record.ts'
import { keys } from './keys.ts'
import { textOf, textsOf } from './reply.ts'
import { script } from './script.ts'

/** How long a change may be sent again. */
const KNOWN_MS = 600_000
/** Most versions, or lines of the audit list, in one page. */
const PAGE_MAX = 1000

const shared = { keys: ['catalog', 'never'], steps: 'catalog_steps' } as const

const changeCatalog = script('change_catalog', {
  ...shared,
  args: ['token', 'expected', 'steps', 'audit', 'token_ms'],
  reply: (reply): CatalogChanged =>
    reply === '' ? { state: 'conflict' } : { state: 'done', version: textOf(reply as string) },
})

const noteChange = script('note_change', {
  ...shared,
  args: ['token', 'workspace', 'json', 'token_ms'],
  reply: () => undefined,
})

const publishedCatalog = script('published_catalog', {
  ...shared,
  args: [],
  reply: (reply): PublishedCatalog => {
    const [version, ...items] = textsOf(reply)
    const records = rowsOf(items, 3).map(([id, owner, published]) => ({
      ...nameOf(textOf(id), textOf(owner)),
      ...versionOf(textOf(published)),
    }))
    return { version: textOf(version), records: records.sort(byId) }
  },
})

const showRecord = script('show_record', {
  ...shared,
  args: ['id', 'owner'],
  reply: (reply) => {
    const texts = textsOf(reply)
    return texts.length === 0 ? null : { draft: texts[0], published: texts[1] }
  },
})

const listRecords = script('list_records', {
  ...shared,
  args: ['owner'],
  reply: (reply): readonly CatalogRecord[] =>
    rowsOf(textsOf(reply), 4)
      .map(([id, owner, draft, published]) => recordOf(nameOf(textOf(id), textOf(owner)), draft, published))
      .sort(byId),
})

const listAudit = script('list_audit', {
  ...shared,
  args: ['workspace', 'below', 'limit'],
  reply: (reply): readonly AuditLine[] => textsOf(reply).map((line) => lineOf(textOf(line))),
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
    published: () => ask((redis) => publishedCatalog(redis, places)),
    get: (record) =>
      ask(async (redis) => {
        const { kind, workspace, name } = record
        const asked = { id: recordId(record), owner: ownerOf(workspace) }
        const found = await showRecord(redis, { ...places, ...asked })
        return found && recordOf({ kind, workspace, name }, found.draft, found.published)
      }),
    list: (workspace) => ask((redis) => listRecords(redis, { ...places, owner: ownerOf(workspace) })),
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
      return ask((redis) => changeCatalog(redis, { ...places, ...wanted }))
    },
    note: (token, note) => {
      const [workspace = '', json = ''] = noteTexts(note)
      return ask((redis) => noteChange(redis, { ...places, token, workspace, json, token_ms: KNOWN_MS }))
    },
    audit: (workspace, below, limit) => {
      const page = { below: below ?? '', limit: Math.min(limit, PAGE_MAX) }
      return ask((redis) => listAudit(redis, { ...places, workspace: ownerOf(workspace), ...page }))
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
function rowsOf(texts: readonly (string | null)[], width: number): (string | null)[][] {
  return Array.from({ length: texts.length / width }, (_, i) => texts.slice(width * i, width * (i + 1)))
}

function byId(one: RecordName, other: RecordName): number {
  return recordId(one) < recordId(other) ? -1 : 1
}
