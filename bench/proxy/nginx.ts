/** nginx with one worker: passing through, and rewriting in Lua. */

/** `more`: of the http block, and of the server. */
const common = (
  dir: string,
  port: number,
  origin: number,
  modules: string,
  location: string,
  more = { http: '', server: '' },
) => `
${modules}
worker_processes 1;
worker_rlimit_nofile 20000;
daemon off;
pid ${dir}/nginx.pid;
error_log ${dir}/error.log crit;
events { worker_connections 16000; multi_accept on; }
http {
  access_log off;
  client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy; fastcgi_temp_path ${dir}/f;
  uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
  client_body_buffer_size 64k; proxy_buffers 8 32k; proxy_buffer_size 16k;
  keepalive_requests 100000000; keepalive_timeout 300s;
  upstream supplier { server 127.0.0.1:${origin}; keepalive 8192; keepalive_requests 100000000; }
  ${more.http}
  server {
    listen 127.0.0.1:${port} backlog=8192;
    ${more.server}
    location / {
      proxy_pass http://supplier; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr;
      ${location}
    }
  }
}
`

const passThrough = (dir: string, port: number, origin: number) => common(dir, port, origin, '', '')

/** An upstream and a location for each supplier. */
export const passThroughTo =
  (suppliers: readonly string[]) => (dir: string, port: number, origin: number) =>
    common(dir, port, origin, '', '', {
      http: suppliers
        .map(
          (id) =>
            `upstream ${id} { server 127.0.0.1:${origin}; keepalive 64; keepalive_requests 100000000; }`,
        )
        .join('\n'),
      server: `proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr;
    ${suppliers.map((id) => `location = /bid/${id} { proxy_pass http://${id}; }`).join('\n')}`,
    })

const modules = (folder: string) =>
  `load_module ${folder}/ndk_http_module.so;\nload_module ${folder}/ngx_http_lua_module.so;`

/**
 * Buffers the response and searches it for the marker. Each bid gets its price, its macros and an authenticated context, by
 * patterns: this nginx has no JSON library for Lua.
 */
const lua = `
      header_filter_by_lua_block {
        local kind = ngx.header.content_type
        if ngx.status == 200 and kind and kind:find('json', 1, true) and not ngx.header.content_encoding then
          ngx.ctx.rewrite = true
          ngx.header.content_length = nil
        end
      }
      body_filter_by_lua_block {
        local ctx = ngx.ctx
        if not ctx.rewrite then return end
        local held = ctx.held
        if not held then held = {}; ctx.held = held end
        if ngx.arg[1] ~= '' then held[#held + 1] = ngx.arg[1] end
        if not ngx.arg[2] then ngx.arg[1] = nil; return end
        local body = table.concat(held)
        if body:find('SVC_OPD_CONTEXT', 1, true) then
          local floor = tonumber((ngx.var.request_body or ''):match('"bidfloor":([%d.]+)') or 0)
          local parts, from = {}, 1
          local function bid(chunk)
            local id = chunk:match('^{"id":"([^"]*)","impid":')
            local before = tonumber(chunk:match('"price":([%d.]+)'))
            if not id or not before or not chunk:find('svc_opd=\${SVC_OPD_CONTEXT}', 1, true) then return chunk end
            local out = string.format('%.6g', math.max(floor, before * 0.9))
            local claims = id .. '|' .. before .. '|' .. out .. '|' .. ngx.now()
            local tag = ngx.hmac_sha1('0123456789abcdef0123456789abcdef', claims)
            local context = ngx.encode_base64(claims .. tag, true):gsub('[+/]', { ['+'] = '-', ['/'] = '_' })
            local values = {
              SVC_OPD_CONTEXT = context, SVC_OPD_IN_BID_PRICE = tostring(before),
              SVC_OPD_OUT_BID_PRICE = out, SVC_OPD_MODE = 'revenue',
            }
            chunk = chunk:gsub('%\${(SVC_OPD_[A-Z_]+)}', values)
            return (chunk:gsub('"price":[%d.]+', '"price":' .. out, 1))
          end
          while from do
            local after = body:find('{"id":"[^"]*","impid":', from + 1)
            parts[#parts + 1] = bid(body:sub(from, after and after - 1 or -1))
            from = after
          end
          body = table.concat(parts)
        end
        ngx.arg[1] = body
      }`

export const rewriting = (dir: string, port: number, origin: number, folder: string) =>
  common(dir, port, origin, modules(folder), lua)

interface Tls {
  /** Of this listener, and of the supplier. */
  port: number
  origin: number
  cert: string
  key: string
}

/** Plain and over TLS, to a plain supplier (`/bid/bench`) and to one over TLS (`/bid/tls`). `cert` and `key` are files. */
export const passThroughTls = (dir: string, port: number, origin: number, tls: Tls) =>
  passThrough(dir, port, origin)
    .replace(
      'upstream supplier {',
      `upstream secure { server 127.0.0.1:${tls.origin}; keepalive 8192; keepalive_requests 100000000; }
  upstream supplier {`,
    )
    .replace(
      'location / {',
      `listen 127.0.0.1:${tls.port} ssl backlog=8192;
    ssl_certificate ${tls.cert}; ssl_certificate_key ${tls.key}; ssl_session_cache shared:s:10m;
    proxy_http_version 1.1; proxy_set_header Connection "";
    location /bid/tls { proxy_pass https://secure; proxy_ssl_session_reuse on; }
    location / {`,
    )
