// Run as a process of its own, to be killed: it prints a line once its uploads are under way.

import { setTimeout as sleep } from 'node:timers/promises'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { createS3Objects, type S3Options } from '../../../src/gateway/storage/s3.ts'

const MIB = 1024 * 1024
const store = JSON.parse(process.argv[2]!) as { root?: string; s3?: S3Options }
const objects = store.root === undefined ? createS3Objects(store.s3!) : await createFileObjects(store.root)
const options = { signal: new AbortController().signal }

async function* endless(): AsyncGenerator<Uint8Array> {
  for (;;) {
    yield Buffer.alloc(100_000)
    await sleep(5)
  }
}

async function* short(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('abc')
}

await objects.put('spool/acme/req_done/1', short(), 3, options)
await objects.put('job/acme/tj_1/1', short(), 3, options)
objects.put('spool/acme/req_cut/1', endless(), 100 * MIB, options)
const spooled = await objects.upload('spool/acme/req_parts/1', options)
await spooled.part([Buffer.alloc(5 * MIB)], options.signal)
const job = await objects.upload('job/acme/tj_2/1', options)
void job.part([Buffer.alloc(5 * MIB)], options.signal)
await sleep(100)
process.stdout.write('uploading\n')
await sleep(60_000)
