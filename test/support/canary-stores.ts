import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import { Redis } from 'ioredis'
import { type CanaryRig, filesBelow } from './canary-rig.ts'

/** What a node has kept: what its things are called, and what is in them. */
export interface Kept {
  readonly names: readonly string[]
  readonly values: readonly (Buffer | string)[]
  /**
   * The files of SQLite as they are, with what has been deleted in them. They cut a long value wherever a page ends, in
   * the middle of a mark, too; whether anything was kept in pieces the rows say.
   */
  readonly pages: readonly Buffer[]
}

type Part = Pick<Kept, 'names' | 'values'>

/** Everything that there is in state and store. */
export async function keptBy(rig: CanaryRig): Promise<Kept> {
  const files = await filesBelow(join(rig.folder, 'data'))
  // It is there to be read by its owner alone, and is the key itself.
  const own = files.filter(({ name }) => !name.endsWith('/secret-key'))
  const [ofState, others] = [true, false].map((paged) =>
    own.filter(({ name }) => name.includes('state.sqlite') === paged).map(({ bytes }) => bytes),
  )
  const parts: Part[] = [{ names: own.map(({ name }) => name), values: others ?? [] }]
  if (own.some(({ name }) => name.endsWith('state.sqlite')))
    parts.push(rowsOf(join(rig.folder, 'data', 'state.sqlite')))
  if (rig.redis !== null) parts.push(await entriesOf(rig.redis.port, rig.redisPassword))
  if (rig.s3 !== null) parts.push(await objectsOf(rig))
  const [names, values] = [parts.flatMap((part) => part.names), parts.flatMap((part) => part.values)]
  return { names, values, pages: ofState ?? [] }
}

/** By what rows are found, the columns of every index, against all that is in them. */
function rowsOf(file: string): Part {
  const db = new DatabaseSync(file, { readOnly: true })
  const names: string[] = []
  const values: (Buffer | string)[] = []
  const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[]
  for (const { name: table } of tables) {
    const columns = new Set<unknown>()
    for (const index of db.prepare(`PRAGMA index_list("${table}")`).all())
      for (const column of db.prepare(`PRAGMA index_info("${index.name}")`).all()) columns.add(column.name)
    for (const column of db.prepare(`PRAGMA table_info("${table}")`).all())
      if (column.pk !== 0) columns.add(column.name)
    for (const row of db.prepare(`SELECT * FROM "${table}"`).all()) {
      for (const [column, value] of Object.entries(row)) {
        const text = value instanceof Uint8Array ? Buffer.from(value) : String(value)
        values.push(text)
        if (columns.has(column)) names.push(`${table}.${column} ${text}`)
      }
    }
  }
  db.close()
  return { names, values }
}

async function entriesOf(port: number, password: string): Promise<Part> {
  const redis = new Redis({ host: '127.0.0.1', port, password })
  const names: string[] = []
  const values: (Buffer | string)[] = []
  try {
    for await (const keys of redis.scanStream({ count: 1_000 }) as AsyncIterable<string[]>) {
      for (const key of keys) {
        const kind = await redis.type(key)
        const read: Record<string, () => Promise<unknown>> = {
          string: () => redis.getBuffer(key),
          hash: () => redis.hgetallBuffer(key),
          list: () => redis.lrangeBuffer(key, 0, -1),
          set: () => redis.smembersBuffer(key),
          zset: () => redis.zrangeBuffer(key, '0', '-1'),
          stream: () => redis.xrangeBuffer(key, '-', '+'),
        }
        const value = await read[kind]?.()
        names.push(key, ...(kind === 'hash' ? Object.keys(value as object) : []))
        values.push(...flat(value))
      }
    }
  } finally {
    redis.disconnect()
  }
  return { names, values }
}

function flat(value: unknown): Buffer[] {
  if (value === null || value === undefined) return []
  if (Buffer.isBuffer(value)) return [value]
  return Object.values(value).flatMap(flat)
}

async function objectsOf({ s3, bucket }: CanaryRig): Promise<Part> {
  if (s3 === null) return { names: [], values: [] }
  const { endpoint, region, accessKeyId, secretAccessKey } = s3
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
  })
  const { Contents: contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket }))
  const values = await Promise.all(
    contents.map(async ({ Key }) => {
      const { Body, Metadata, ...head } = await client.send(new GetObjectCommand({ Bucket: bucket, Key }))
      const bytes = (await Body?.transformToByteArray()) ?? new Uint8Array(0)
      return [JSON.stringify({ Metadata, type: head.ContentType }), Buffer.from(bytes)]
    }),
  )
  client.destroy()
  return { names: contents.map(({ Key }) => `${Key}`), values: values.flat() }
}
