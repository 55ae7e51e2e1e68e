import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3'
import { Redis } from 'ioredis'
import { readSegment } from '../../src/usage/segment-rows.ts'
import { s3ClientOf } from '../support/s3-server.ts'
import { recordsOf } from '../support/usage-lake.ts'
import { segmentRecords } from '../support/usage-records.ts'
import { type Told, tell } from './canary-attacks.ts'
import { type Ask, CASES, type Found, type Songs } from './canary-cases.ts'
import { type Caller, type CanaryRig, filesBelow } from './canary-rig.ts'
import { type Canaries, type CanaryKind, type Finding, PIECE, singingWav } from './canary-values.ts'

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

/** Where to look. */
export type KeptRig = Pick<CanaryRig, 'folder' | 'redis' | 'redisPassword' | 's3' | 'bucket'>

type Part = Pick<Kept, 'names' | 'values'>

/** Everything that there is in state and store. */
export async function keptBy(rig: KeptRig): Promise<Kept> {
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

/** Records and sums of usage, wherever they are by now: each file as it is, and what it says. */
async function usageOf(rig: CanaryRig): Promise<{ values: (Buffer | string)[]; records: number }> {
  const files = [
    ...(await filesBelow(join(rig.folder, 'data'))),
    ...(await filesBelow(join(rig.folder, 'data-of-worker'))),
  ]
  const objects = rig.s3 === null ? [] : (await objectsOf(rig, 'usage/')).values
  const stored = files.filter(({ name, bytes }) => /^\/usage\/.*\.parquet$/.test(name) && bytes.length > 0)
  const parquet = [...stored.map(({ bytes }) => bytes), ...objects].filter((value) => Buffer.isBuffer(value))
  const values: (Buffer | string)[] = [...parquet]
  const records = await recordsOf(...parquet)
  for (const { name, bytes } of files)
    if (name.endsWith('.usage') && bytes.length > 0) {
      values.push(bytes)
      records.push(...segmentRecords(readSegment(bytes)))
    }
  values.push(...records.map((record) => JSON.stringify(record)))
  return { values, records: records.length }
}

async function objectsOf({ s3, bucket }: KeptRig, prefix = ''): Promise<Part> {
  if (s3 === null) return { names: [], values: [] }
  const client = s3ClientOf(s3)
  const listing = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix })
  const { Contents: contents = [] } = await client.send(listing)
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

/** What a caller of the management API is told of a field that there is not: its name, as it was sent. */
function withoutFieldNames(text: string): string {
  const name = /"message":"`([^`]+)` is not a field of this request"/.exec(text)?.[1]
  return name === undefined ? text : text.replaceAll(name, '')
}

const ALL: readonly CanaryKind[] = ['secret', 'content', 'foreign']
/** What a good answer may not say. */
const NOT_ANSWERED: readonly CanaryKind[] = ['secret', 'foreign']

/** Requests that are asked at a time. */
const AT_ONCE = 16

/** Sends requests, looks at every byte that comes out of the product anywhere, and keeps count of what happened. */
export class CanaryRun {
  /** Where a canary sang that had to be silent. */
  readonly faults = new Set<string>()
  /** How often there was each status and code. */
  readonly outcomes = new Map<string, number>()
  readonly songs: Songs
  readonly found = {
    jobId: 'tj_0000000000000000000000000000',
    uploadId: 'upl_00000000000000000000000000',
    resultPath: null as string | null,
    session: { cookie: '', csrf: '' },
  }
  /** For headers and paths, which nobody keeps. */
  readonly noise: string
  readonly #canaries: Canaries
  readonly #rig: CanaryRig

  /** @param whose goes before the names of what it sends */
  constructor(all: Canaries, rig: CanaryRig, whose = '') {
    this.#canaries = all
    this.#rig = rig
    const canaries = { make: (name: string, kind: CanaryKind) => all.make(`${whose}${name}`, kind) }
    this.noise = canaries.make('header or path', 'foreign')
    const query = `token=${canaries.make('query of audio.url', 'content')}&sig=1`
    this.songs = {
      prompt: canaries.make('prompt', 'content'),
      filename: `${canaries.make('file name', 'content')}.wav`,
      field: canaries.make('field of a request', 'content'),
      label: canaries.make('label of a purpose', 'content'),
      wav: singingWav(canaries.make('sound of the caller', 'content')),
      audioUrl: `https://good.example/audio?${query}`,
      receiver: canaries.make('secret of a receiver', 'secret'),
      credential: canaries.make('credential of a provider', 'secret'),
      hookUrl: `https://hooks.example/hook?token=${canaries.make('query of the webhook', 'content')}`,
    }
  }

  /** The good requests of every path, or of those that match. */
  goods(pattern = /./): Ask[] {
    const found: Found = this.found
    const cases = Object.entries(CASES).filter(([name]) => pattern.test(name))
    return cases.flatMap(([, make]) => make(this.songs, found))
  }

  /** Has the good requests to the console be those of somebody who has signed in. */
  async signIn(): Promise<void> {
    const key = this.#rig.authorization.all.replace('Bearer ', '')
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ key })
    const told = await this.ask({ method: 'POST', path: '/console/api/session', headers, body })
    const cookie = /^set-cookie: (lk_console=([\w-]+));/im.exec(told?.headers ?? '')
    const csrf = /"csrf_token":"([\w-]+)"/.exec(told?.body.toString() ?? '')?.[1]
    if (cookie === null || csrf === undefined) throw new Error(`signing in: ${told?.status} ${told?.body}`)
    this.found.session = { cookie: cookie[1] ?? '', csrf }
    this.#canaries.watch('token of a session', 'secret', cookie[2] ?? '')
  }

  /** @returns the answers, in order; null where there was none */
  async askAll(
    asks: readonly Ask[],
    caller: Caller | null = 'all',
    atOnce = AT_ONCE,
  ): Promise<(Told | null)[]> {
    const told: (Told | null)[] = []
    let next = 0
    const one = async (): Promise<void> => {
      for (let at = next++; at < asks.length; at = next++) told[at] = await this.ask(asks[at]!, caller)
    }
    await Promise.all(Array.from({ length: atOnce }, one))
    return told
  }

  /** @param caller null: the request says by itself who asks */
  async ask(ask: Ask, caller: Caller | null = 'all'): Promise<Told | null> {
    const authorization = caller === null ? {} : { authorization: this.#rig.authorization[caller] }
    const told = await tell(this.#rig.port, { ...ask, headers: { ...authorization, ...ask.headers } })
    if (told !== null) this.#judge(`${ask.method} ${ask.path.replace(/[?].*/, '')}`, told)
    return told
  }

  /** What came back without having been asked in HTTP. */
  judgeRaw(bytes: Buffer): void {
    this.#report('an answer to no request', this.#canaries.find(bytes), ALL)
    this.#count(/^HTTP\/1\.1 (\d+)/.exec(bytes.toString('latin1'))?.[1] ?? 'none')
  }

  #judge(what: string, { status, headers, body }: Told): void {
    const text = body.toString()
    const code = status < 400 ? undefined : /"error":\{"code":"([A-Z_]+)"/.exec(text)?.[1]
    this.#count(`${status}${code === undefined ? '' : ` ${code}`}`)
    // Facts that go into headers where the answer has no place for them: the caller's label, and names of its fields.
    // What a client says of its upload is given back to it.
    const said = headers.replace(/^(?:x-lk-(?:requested-purpose|warnings)|upload-metadata): .*$/gim, '')
    this.#report(`${what}: header of ${status}`, this.#canaries.find(said), ALL)
    const found = this.#canaries.find(status === 400 ? withoutFieldNames(text) : body)
    this.#report(`${what}: body of ${status}`, found, status < 400 ? NOT_ANSWERED : ALL)
    for (const line of text.split('\n').filter((event) => /^data: .*"error":(?!null)/.test(event))) {
      this.#report(`${what}: event of an error`, this.#canaries.find(line), ALL)
    }
    // The documentation has examples of both.
    if (/\/(?:workspaces?|v1)\//.test(what)) this.#learn(text)
  }

  /** Answers give out what is nobody else's: from now on it is looked for, too. */
  #learn(text: string): void {
    const secret = /"signing_secret":"(whsec_[^"]+)"/.exec(text)?.[1]
    if (secret !== undefined) this.#canaries.watch('secret of the webhook', 'secret', secret)
    const upload = /"upload_id":"(upl_\w+)","length"/.exec(text)?.[1]
    if (upload !== undefined) this.found.uploadId = upload
    const token = /"token":"(ut_[^"]+)"/.exec(text)?.[1]
    if (token !== undefined) this.#canaries.watch('token of an upload', 'secret', token)
    const key = /"key":"(lk_live_\w+)"/.exec(text)?.[1]
    if (key !== undefined) this.#canaries.watch('key made in the console', 'secret', key)
    const url = /"(?:result_)?url":"([^"]*(?:\/results\/|X-Amz-Signature=)[^"]*)"/.exec(text)?.[1]
    if (url === undefined) return
    const path = URL.parse(url, 'http://a')
    if (path?.pathname.startsWith('/results/')) this.found.resultPath = path.pathname
    const opens = path?.searchParams.get('X-Amz-Signature') ?? path?.pathname.split('.')[1] ?? ''
    this.#canaries.watch('signed URL', 'content', opens)
  }

  #count(outcome: string): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1)
  }

  #report(where: string, findings: readonly Finding[], forbidden: readonly CanaryKind[]): void {
    for (const { name, kind, around } of findings) {
      if (forbidden.includes(kind)) this.faults.add(`${where}: ${name}: ${JSON.stringify(around)}`)
    }
  }

  /** @returns how many figures the processes that run tell */
  async judgeMetrics(): Promise<number> {
    const texts = await this.#rig.metrics()
    for (const text of texts) this.#report('metrics', this.#canaries.find(text), ALL)
    return texts.join('').split('\n').length
  }

  /** What the processes have written, and the traces. @returns how many bytes of the latter there are */
  judgeOutputs(): number {
    for (const [index, { output }] of this.#rig.processes.entries()) {
      this.#report(`output of process ${index}`, this.#canaries.find(output()), ALL)
    }
    const traces = this.#rig.traces()
    this.#report('traces', this.#canaries.find(traces), ALL)
    return traces.length
  }

  /** No record of usage sings, neither as it is written nor as it is read. @returns how many there are */
  async judgeUsage(): Promise<number> {
    const { values, records } = await usageOf(this.#rig)
    for (const value of values) this.#report('the usage ledger', this.#canaries.find(value), ALL)
    return records
  }

  /**
   * No name of anything sings, and of what is kept no secret does, nor what nobody has a use for.
   *
   * @returns how many names there are, and values that sing
   */
  async judgeStores(): Promise<{ names: number; singing: number }> {
    const { names, values, pages } = await keptBy(this.#rig)
    for (const name of names) this.#report('a name in the stores', this.#canaries.find(name), ALL)
    const findings = values.map((value) => this.#canaries.find(value))
    for (const those of findings) this.#report('a value in the stores', those, NOT_ANSWERED)
    const inPages = pages.flatMap((page) => this.#canaries.find(page)).filter(({ name }) => name !== PIECE)
    this.#report('a page of the state', inPages, NOT_ANSWERED)
    return { names: names.length, singing: findings.filter(({ length }) => length > 0).length }
  }
}
