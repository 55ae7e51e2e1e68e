import { userInfo } from 'node:os'

/** How nginx takes uploads: as recommended in front of Larkway, or with the buffer it has unless told otherwise. */
export type NginxBuffers = 'tuned' | 'default'

/** A configuration of one worker that answers by itself or passes on, and writes nothing per request. */
export function nginxConfiguration(options: {
  port: number
  upstreamPort: number
  folder: string
  buffers: NginxBuffers
}): string {
  const { port, upstreamPort, folder, buffers } = options
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `  ${kind}_temp_path ${folder}/nginx-${kind};`,
  )
  const user = process.getuid?.() === 0 ? `user ${userInfo().username};` : ''
  return `
${user}
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
${temporary.join('\n')}
  access_log off;
  keepalive_requests 1000000000;
  client_max_body_size 0;
  ${buffers === 'tuned' ? 'client_body_buffer_size 512k;' : ''}
  upstream provider {
    server 127.0.0.1:${upstreamPort};
    keepalive 64;
    keepalive_requests 1000000000;
    keepalive_timeout 6s;
  }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location /v1/ {
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
      proxy_read_timeout 600s;
    }
    location / {
      default_type application/json;
      return 200 '{"status":"ok"}';
    }
  }
}
`
}
