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
    sign({ key, mediaType }, endsAtSeconds) {
      const command = new GetObjectCommand({ Bucket: bucket, Key: key, ResponseContentType: mediaType })
      // A signature has the second in which it was made, and how many it holds from there.
      const signedAtSeconds = Math.floor(Date.now() / 1000)
      const signingDate = new Date(signedAtSeconds * 1000)
      return getSignedUrl(client, command, { signingDate, expiresIn: endsAtSeconds - signedAtSeconds })
    },
  }
}
