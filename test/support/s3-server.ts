import { execFile } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  CreateBucketCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  S3Client,
} from '@aws-sdk/client-s3'
import { freePort, type Teardown } from './scratch.ts'
import { Daemon, locate, type Program } from './servers.ts'

export interface Bucket {
  /** What makes a gateway keep its objects here. */
  readonly env: Readonly<Record<string, string>>
  /** Keys of all objects, and of all multipart uploads that are open, marked as such. */
  contents(): Promise<string[]>
}

/** A fresh bucket, looked at with a client of our own. */
export async function openBucket(t: Teardown, server: SharedS3): Promise<Bucket> {
  const bucket = await server.makeBucket()
  const { endpoint, region, accessKeyId, secretAccessKey } = server
  const client = s3ClientOf(server)
  t.teardown(() => client.destroy())
  return {
    env: {
      S3_ENDPOINT: endpoint,
      S3_REGION: region,
      S3_BUCKET: bucket,
      S3_ACCESS_KEY_ID: accessKeyId,
      S3_SECRET_ACCESS_KEY: secretAccessKey,
    },
    async contents() {
      const [objects, uploads] = await Promise.all([
        client.send(new ListObjectsV2Command({ Bucket: bucket })),
        client.send(new ListMultipartUploadsCommand({ Bucket: bucket })),
      ])
      return [
        ...(objects.Contents ?? []).map(({ Key }) => `${Key}`),
        ...(uploads.Uploads ?? []).map(({ Key }) => `${Key} (open upload)`),
      ]
    },
  }
}

export type S3Options = {
  /** Lines for the gateway's section of ceph.conf: `rgw_lc_debug_interval = 2` makes a lifecycle day last 2 s. */
  settings?: string
}

/** How a server is reached, and with which credentials. */
export type S3Access = {
  /** `http://127.0.0.1:<port>`, path style. */
  endpoint: string
  region: string
  accessKeyId: string
  secretAccessKey: string
}

/** A server that others may have, too: it is not ended. */
export type SharedS3 = S3Access & {
  /** A first bucket; `makeBucket` makes more. */
  bucket: string
  /** A fresh, empty bucket: one for each test that shares the server. */
  makeBucket(): Promise<string>
}

export type S3Server = SharedS3 & {
  /** Of radosgw, the S3 server itself; changes with every `restart`. */
  readonly pid: number
  /** SIGKILL of radosgw; the stored objects are kept. */
  kill(): Promise<void>
  /** Starts radosgw again on the same port; kills it first when it runs. */
  restart(): Promise<void>
  /** SIGSTOP of radosgw: connections stay open and nothing answers. */
  freeze(): void
  thaw(): void
}

const REGION = 'us-east-1'

/**
 * A private, real S3 server: Ceph with one monitor, one store in memory and radosgw. It starts in about 2 s and takes
 * some 300 MB and what is stored, so a test that neither ends nor freezes it takes `sharedS3`.
 */
export async function startS3(t: Teardown, options: S3Options = {}): Promise<S3Server> {
  const program = await locate('s3')
  const cluster = await makeCluster(t, program, options)
  const endpoint = `http://127.0.0.1:${cluster.port}`
  const mon = cluster.daemon('ceph-mon', ['-f', '-i', 'a'])
  const osd = cluster.daemon('ceph-osd', ['-f', '-i', '0'])
  const radosgw = cluster.daemon('radosgw', ['-f', '-n', 'client.admin'])
  t.teardown(() => Promise.all([radosgw, osd, mon].map((daemon) => daemon.kill())))

  const accessKeyId = 'testkey'
  const secretAccessKey = randomBytes(20).toString('hex')
  await mon.start(() => cluster.hasSocket('mon.a'))
  const osdId = randomUUID()
  await cluster.run('ceph', 'osd', 'new', osdId) // waits until the monitor has formed its quorum
  await cluster.run('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', osdId)
  await osd.start(() => cluster.hasSocket('osd.0'))
  const user = [
    '--uid=test',
    '--display-name=test',
    `--access-key=${accessKeyId}`,
    `--secret-key=${secretAccessKey}`,
  ]
  try {
    await cluster.run('radosgw-admin', 'user', 'create', ...user) // waits until the store is up
  } catch (error) {
    // On a busy machine its threads are in one another's way when it ends: it crashes, and has made the user.
    if ((error as { signal?: string | null }).signal !== 'SIGSEGV') throw error
    await cluster.run('radosgw-admin', 'user', 'info', '--uid=test')
  }
  const isReady = () => answers(endpoint)
  await radosgw.start(isReady)

  const access = { endpoint, region: REGION, accessKeyId, secretAccessKey }
  const makeBucket = bucketMaker(t, access)

  return {
    ...access,
    bucket: await makeBucket(),
    get pid() {
      return radosgw.pid
    },
    makeBucket,
    kill: () => radosgw.kill(),
    async restart() {
      await radosgw.kill()
      await radosgw.start(isReady)
    },
    freeze: () => radosgw.freeze(),
    thaw: () => radosgw.thaw(),
  }
}

/** A client that the caller ends. */
export function s3ClientOf({ endpoint, region, accessKeyId, secretAccessKey }: S3Access): S3Client {
  const credentials = { accessKeyId, secretAccessKey }
  return new S3Client({ endpoint, region, forcePathStyle: true, credentials })
}

/** Makes fresh buckets of a server, until the test ends. */
export function bucketMaker(t: Teardown, access: S3Access): () => Promise<string> {
  const client = s3ClientOf(access)
  t.teardown(() => client.destroy())
  return async () => {
    const bucket = `test-${randomBytes(6).toString('hex')}`
    await client.send(new CreateBucketCommand({ Bucket: bucket }))
    return bucket
  }
}

async function answers(endpoint: string): Promise<boolean> {
  try {
    const reply = await fetch(endpoint, { signal: AbortSignal.timeout(1000) })
    await reply.arrayBuffer()
    return reply.ok
  } catch {
    return false
  }
}

type Cluster = {
  /** Of the S3 server. */
  port: number
  run(command: string, ...args: string[]): Promise<void>
  daemon(command: string, args: string[]): Daemon
  /** Whether a daemon has made its admin socket. */
  hasSocket(name: string): Promise<boolean>
}

/** Lays out the files of a cluster in a folder inside Ceph's own root, where its programs see it too. */
async function makeCluster(t: Teardown, program: Program, options: S3Options): Promise<Cluster> {
  const { command, root = '' } = program
  await removeAbandoned(join(root, 'var/tmp'))
  const inside = `/var/tmp/s3-${process.pid}-${randomBytes(4).toString('hex')}`
  const outside = join(root, inside)
  const port = await freePort()
  const monPort = await freePort()
  const fsid = randomUUID()
  for (const part of ['mon', 'osd', 'run', 'log']) await mkdir(join(outside, part), { recursive: true })
  t.teardown(() => rm(outside, { recursive: true, force: true, maxRetries: 3 }))

  const env = { CEPH_CONF: `${inside}/ceph.conf`, LC_ALL: 'C', HOME: '/var/tmp' }
  const exec = async (file: string, ...args: string[]) => {
    const [first = '', ...rest] = [...command, file, ...args]
    const { stdout } = await promisify(execFile)(first, rest, {
      env: { ...process.env, ...env },
      timeout: 60_000,
    })
    return stdout
  }
  await writeFile(join(outside, 'ceph.conf'), configuration({ fsid, inside, port, monPort, ...options }))
  const key = (await exec('ceph-authtool', '--gen-print-key')).trim()
  await writeFile(join(outside, 'keyring'), keyring(key))
  const address = `[v1:127.0.0.1:${monPort}]`
  await exec('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', address, `${inside}/monmap`)
  await exec(
    'ceph-mon',
    '--mkfs',
    '-i',
    'a',
    '--monmap',
    `${inside}/monmap`,
    '--keyring',
    `${inside}/keyring`,
  )

  return {
    port,
    run: async (file, ...args) => void (await exec(file, ...args)),
    daemon: (file, args) =>
      new Daemon(file, { command: [...command, file], env }, args, join(outside, 'log', `${file}.out`)),
    hasSocket: async (name) => existsSync(join(outside, 'run', `${name}.asok`)),
  }
}

/** Folders of test runs that were killed; the process id stands in the name. */
async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const pid = /^s3-(\d+)-/.exec(name)?.[1]
    if (pid && !existsSync(`/proc/${pid}`)) await rm(join(folder, name), { recursive: true, force: true })
  }
}

/** One key for everyone: authentication stays on because without it a store now and then fails to start. */
function keyring(key: string): string {
  const rights = { 'mon.': ['mon'], 'client.admin': ['mon', 'osd', 'mgr'], 'osd.0': ['mon', 'osd'] }
  return Object.entries(rights)
    .map(
      ([name, caps]) => `[${name}]\nkey = ${key}\n${caps.map((cap) => `caps ${cap} = "allow *"\n`).join('')}`,
    )
    .join('')
}

type Layout = S3Options & { fsid: string; inside: string; port: number; monPort: number }

/**
 * A cluster of one: no copies, few placement groups, everything on loopback, objects in memory. A killed radosgw is
 * forgotten after a second; by default its successor's first write would wait 30 s for it to answer.
 */
function configuration({ fsid, inside, port, monPort, settings = '' }: Layout): string {
  return `[global]
fsid = ${fsid}
mon_host = v1:127.0.0.1:${monPort}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
ms_bind_msgr2 = false
keyring = ${inside}/keyring
auth_allow_insecure_global_id_reclaim = false
run_dir = ${inside}/run
log_file = ${inside}/log/$name.log
admin_socket = ${inside}/run/$name.asok
pid_file = ${inside}/run/$name.pid
crash_dir = ${inside}/log
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
osd_crush_chooseleaf_type = 0
[mon]
mon_data = ${inside}/mon
mon_initial_members = a
paxos_propose_interval = 0.05
mon_data_avail_warn = 1
mon_data_avail_crit = 0
[osd]
osd_data = ${inside}/osd
osd_objectstore = memstore
memstore_device_bytes = 8589934592
osd_crush_initial_weight = 1
osd_client_watch_timeout = 1
osd_class_load_list = *
osd_class_default_list = *
[client]
rgw_frontends = beast endpoint=127.0.0.1:${port}
rgw_rados_pool_pg_num_min = 4
rgw_gc_obj_min_wait = 1
rgw_gc_processor_period = 5
${settings}
`
}
