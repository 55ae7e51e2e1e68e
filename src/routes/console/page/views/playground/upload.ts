import { ApiError } from '../../api-error.ts'
import { type Answer, accepted } from './v1.ts'

export interface UploadSteps {
  /** How many bytes of the body the browser has handed to the network, of how many. */
  readonly onSent: (sentBytes: number, totalBytes: number) => void
  /** The body is out: what comes now is the gateway's and the provider's time. */
  readonly onUploaded: () => void
}

/**
 * Posts a form. It takes an XMLHttpRequest, since fetch tells nothing of what it has sent.
 *
 * @throws ApiError; the signal's reason when it was aborted
 */
export function upload(
  path: string,
  key: string,
  form: FormData,
  signal: AbortSignal,
  { onSent, onUploaded }: UploadSteps,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    signal.addEventListener('abort', abort)
    request.open('POST', path)
    request.setRequestHeader('authorization', `Bearer ${key}`)
    request.upload.onprogress = ({ loaded, total }) => onSent(loaded, total)
    request.upload.onload = ({ loaded, total }) => {
      onSent(loaded, total)
      onUploaded()
    }
    request.onabort = () => reject(signal.reason)
    request.onerror = () => reject(broken())
    request.onload = () => {
      const header = (name: string) => request.getResponseHeader(name)
      try {
        resolve(accepted({ status: request.status, text: request.responseText, header }))
      } catch (thrown) {
        reject(thrown)
      }
    }
    request.onloadend = () => signal.removeEventListener('abort', abort)
    request.send(form)
  })
}

function broken(): ApiError {
  return new ApiError('the connection broke before there was an answer', { code: 'UNREACHABLE', status: 0 })
}
