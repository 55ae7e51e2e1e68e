import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import type { Links } from '../schema/links.ts'
import type { S3Options } from './s3.ts'

/** URLs that the store itself signs; nothing is sent to make one. `endpoint` is the one that callers reach. */
export function createS3Links({
  bucket,
  endpoint,
  region,
  ...credentials
}: Omit<S3Options, 'timing'>): Links {
  const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true })
  return {
    sign({ key, mediaType }, expiresInSeconds) {
      const command = new GetObjectCommand({ Bucket: bucket, Key: key, ResponseContentType: mediaType })
      return getSignedUrl(client, command, { expiresIn: expiresInSeconds })
    },
  }
}
