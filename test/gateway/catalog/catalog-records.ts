import type { PublishedRecord } from '../../../src/contracts/catalog-service.ts'
import type {
  Actor,
  PublishedCatalog,
  RecordFields,
  RecordName,
} from '../../../src/contracts/catalog-store.ts'
import { hashFields } from '../../../src/contracts/json.ts'

const ANNA: Actor = { via: 'console', keyId: 'key_anna', name: 'anna' }

/** A record as it is published, e.g. `recordOf('route/acme.voice', 'acme', {…})`. Of an app: `app/acme/web`. */
export function recordOf(id: string, workspace: string | null, fields: RecordFields): PublishedRecord {
  const [kind = '', ...rest] = id.split('/')
  return {
    kind: kind as RecordName['kind'],
    workspace,
    name: rest.at(-1) ?? '',
    number: 1,
    fields,
    hash: hashFields(fields),
    atMs: 0,
    by: ANNA,
    note: null,
  }
}

let versions = 0

/** A published catalog with a version that no other has. */
export function publishedOf(...records: readonly PublishedRecord[]): PublishedCatalog {
  versions += 1
  return { version: String(versions), records }
}

/** A route of one entry, and what else is set of it. */
export function routeFields(workspace: string, over: RecordFields = {}, provider = 'whisper'): RecordFields {
  return { workspace, entries: [{ provider, model: 'large-v3' }], ...over }
}
