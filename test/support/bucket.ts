import { ListMultipartUploadsCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import type { S3Server } from './s3-server.ts'
import type { Teardown } from './scratch.ts'

export interface Bucket {
  /** What makes a gateway keep its objects here. */
  readonly env: Readonly<Record<string, string>>
  /** Keys of all objects, and of all multipart uploads that are open, marked as such. */
  contents(): Promise<string[]>
}

/** A fresh bucket, looked at with a client of our own. */
export async function openBucket(t: Teardown, server: S3Server): Promise<Bucket> {
  const bucket = await server.makeBucket()
  const { endpoint, region, accessKeyId, secretAccessKey } = server
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
  })
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
