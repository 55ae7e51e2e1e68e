import { once } from 'node:events'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { bucketMaker, type S3Access, type SharedS3, startS3 } from './s3-server.ts'
import type { Teardown } from './scratch.ts'
import { waitUntil } from './wait-until.ts'

// One S3 server for all files of a run: each start of Ceph takes 2.5 s of CPU. As a program, `shared-s3.ts FILE`, it is
// that server, writes into FILE how it is reached, and ends with its standard input. `npm test` runs it for a tier.

const STARTED_MS = 60_000

/**
 * The S3 server of the run, for tests that neither end nor freeze it: one with a fresh bucket for each of them is as
 * good as one of their own. Where the run has none it is started, and ends with the test.
 */
export async function sharedS3(t: Teardown): Promise<SharedS3> {
  const file = process.env.LARKWAY_TEST_S3
  if (file === undefined) return startS3(t)
  let text = ''
  const isThere = await waitUntil(async () => {
    text = await readFile(file, 'utf8').catch(() => '')
    return text !== ''
  }, STARTED_MS)
  if (!isThere) throw new Error('the S3 server of the run is not there after 60 s')
  const access = JSON.parse(text) as S3Access
  const makeBucket = bucketMaker(t, access)
  return { ...access, bucket: await makeBucket(), makeBucket }
}

async function serve(file: string): Promise<void> {
  const ends: (() => unknown)[] = []
  const ended = once(process.stdin.resume(), 'end')
  const server = await startS3({ teardown: (end) => void ends.unshift(end) })
  const { endpoint, region, accessKeyId, secretAccessKey } = server
  await writeFile(`${file}.draft`, JSON.stringify({ endpoint, region, accessKeyId, secretAccessKey }))
  await rename(`${file}.draft`, file)
  await ended
  for (const end of ends) await end()
  process.exit()
}

if (process.argv[1] === import.meta.filename) await serve(process.argv[2] ?? '')
