import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { openS3 } from './rig.ts'

const XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
const FAILED = '<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>'

/** S3 as it is documented for the end of an upload in parts: 200 at once, blanks while it works, and then an error. */
async function startStore(completions: readonly string[]) {
  const asked: string[] = []
  const left = [...completions]
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://a')
    request.resume().on('end', () => {
      const upload = url.searchParams.has('uploadId')
      asked.push(
        `${request.method} ${url.searchParams.has('partNumber') ? 'part' : upload ? 'upload' : 'new'}`,
      )
      if (request.method === 'PUT') return response.setHeader('etag', '"a"').end()
      if (request.method === 'DELETE') return response.writeHead(204).end()
      response.setHeader('content-type', 'application/xml')
      if (!upload)
        return response.end(
          `${XML}<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>`,
        )
      response.write(`${XML}   \n`)
      setImmediate(() => response.end(left.shift() ?? FAILED))
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const access = { region: 'us-east-1', bucket: 'audio', accessKeyId: 'a', secretAccessKey: 'b' }
  const objects = openS3(t, { endpoint, ...access })
  return { objects, asked }
}

const { signal } = new AbortController()

t.test('200 and an error in the body is a failure of the store, and the upload is given up', async (t) => {
  const { objects, asked } = await startStore([])
  const upload = await objects.upload('spool/acme/a/0', { signal })
  await upload.part([Buffer.alloc(100)], signal)
  await t.rejects(upload.complete(signal), { code: 'DEPENDENCY_UNAVAILABLE' })
  await upload.abort()
  t.equal(asked.at(-1), 'DELETE upload', 'nothing is left of it')
})

t.test('an answer that names no object is one, too, and a good one after an error is taken', async (t) => {
  const nameless = await startStore(['<CompleteMultipartUploadResult></CompleteMultipartUploadResult>'])
  const first = await nameless.objects.upload('spool/acme/a/0', { signal })
  await first.part([Buffer.alloc(100)], signal)
  await t.rejects(first.complete(signal), { code: 'DEPENDENCY_UNAVAILABLE' })

  const good = '<CompleteMultipartUploadResult><ETag>"b"</ETag></CompleteMultipartUploadResult>'
  const { objects, asked } = await startStore([FAILED, good])
  const second = await objects.upload('spool/acme/a/0', { signal })
  await second.part([Buffer.alloc(100)], signal)
  await second.complete(signal)
  t.same(asked.slice(-2), ['POST upload', 'POST upload'], 'it was asked again')
  await second.abort()
  t.not(asked.at(-1), 'DELETE upload', 'what exists is not given up')
})
