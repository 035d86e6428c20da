# Types are checked and JavaScript is emitted in the first stage; what runs has neither compiler nor tests.
# To pin it: --build-arg NODE=node:26-slim@sha256:…
ARG NODE=node:26-slim
FROM ${NODE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-fund --no-audit
COPY . .
RUN node node_modules/typescript/bin/tsc --project tsconfig.build.json
# Pages, schemas and whatever else is read beside the code.
RUN cp package.json dist/ && find . -maxdepth 1 -name '*.schema.json' -exec cp '{}' dist/ ';' && find admin proxy opd service -type f ! -name '*.ts' -exec cp --parents '{}' dist/ ';'
# A quarter of the container's memory is the heap's; proxy/memory-shares.ts says who has the others. V8 would compact the heap when
# little traffic comes, and hold up for 94 ms what comes then (bench/proxy/RESULTS-rise.md).
RUN printf '#!/bin/sh\nexec node --max-old-space-size-percentage=25 --enable-source-maps --no-memory-reducer /app/dist/main.js "$@"\n' > bidweir && chmod 755 bidweir

# What node, the launcher and `kubectl cp` need of the system: no package manager, no setuid program.
FROM ${NODE} AS system
WORKDIR /rootfs
RUN for program in /bin/sh /bin/tar /bin/ls /bin/cat "$(command -v node)"; do \
  case "$program" in /bin/*) echo "$program";; esac; ldd "$program" | grep -o '/[^ ]*'; done | sort -u | while read -r file; do cp --parents --dereference "$file" /rootfs; done
RUN cp --parents --dereference /etc/os-release /rootfs && \
  mkdir -p /rootfs/tmp /rootfs/etc/bidweir /empty && chmod 1777 /rootfs/tmp && ln -s ../../data /rootfs/etc/bidweir/data && \
  printf 'root:x:0:0::/:/bin/sh\nbidweir:x:65532:65532::/data:/bin/sh\n' > /rootfs/etc/passwd && printf 'root:x:0:\nbidweir:x:65532:\n' > /rootfs/etc/group
# Scanners find the packages of these files here, as in distroless images, and their licences where Debian has them.
RUN mkdir -p var/lib/dpkg/status.d && find . -type f -path '*/*' | sed 's/^\.//' | while read -r file; do \
  dpkg-query --search "$file" "/usr$file" 2>/dev/null | grep -v '^diversion' | cut -d: -f1; done | sort -u | while read -r package; do \
  dpkg-query --status "$package" > "var/lib/dpkg/status.d/$package" && mkdir -p "usr/share/doc/$package" && \
  cp --dereference "/usr/share/doc/$package/copyright" "usr/share/doc/$package/copyright" || exit 1; done

FROM ${NODE} AS application
WORKDIR /app
COPY package.json package-lock.json LICENSE ./
RUN npm ci --omit=dev --ignore-scripts --no-fund --no-audit
# Licences stay, whatever their names.
RUN find node_modules -type f '(' -name '*.map' -o -name '*.md' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' ')' ! -iname 'licen*' -delete
# A file of a package may have a set-user-id bit.
RUN chmod -R a-s node_modules
COPY image /image
COPY --from=system /rootfs/var/lib/dpkg/status.d /image/status.d
RUN npm pkg delete devDependencies && npm sbom --sbom-format=cyclonedx | node /image/sbom.mjs /image/status.d /etc/os-release > sbom.cdx.json
COPY --from=build /app/dist ./dist
COPY --from=build /app/bidweir /usr/local/bin/bidweir
# The compile cache: by the user and with the flags of the service, or Node.js would not use it. The other flags make each
# build write the same bytes: a fixed seed, and no garbage collection meanwhile.
RUN mkdir dist/.cache && chown 65532:65532 dist/.cache && setpriv --reuid=65532 --regid=65532 --clear-groups \
  node --max-old-space-size-percentage=25 --enable-source-maps --no-memory-reducer \
  --random-seed=1 --single-threaded-gc --min-semi-space-size=128 --max-semi-space-size=128 \
  /image/compile-cache.mjs "$PWD/dist" "$PWD/dist/.cache" && \
  chown -R 0:0 dist/.cache && chmod -R a+rX dist/.cache

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title=bidweir \
  org.opencontainers.image.description="The ingress proxy for OpenRTB bid traffic with Optimized Price Discovery" \
  org.opencontainers.image.licenses=Apache-2.0 \
  org.opencontainers.image.version=${VERSION} \
  org.opencontainers.image.revision=${REVISION}
# An exchange reads what the agent is: `npm run docs` writes it from opd/agent/manifest.json.
LABEL agent-manifest='{"name":"bidweir","description":"Lowers the prices of bids by a learned model of what wins: never below a floor, measured against a holdout","intents":["BID_SHADE"],"resources":{"requests":{"cpu":"100m","memory":"256Mi"},"limits":{"memory":"1Gi"}},"dependencies":{},"health":{"livenessProbe":{"httpGet":{"path":"/heartbeat","port":50051}},"readinessProbe":{"httpGet":{"path":"/healthcheck","port":50051}}},"security":{"runAsNonRoot":true,"runAsUser":65532,"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}},"maintainers":[{"name":"The bidweir authors"}],"version":"0.1.0"}' \
  com.iabtechlab.artf.descriptor='eyJuYW1lIjoiYmlkd2VpciIsImRlc2NyaXB0aW9uIjoiTG93ZXJzIHRoZSBwcmljZXMgb2YgYmlkcyBieSBhIGxlYXJuZWQgbW9kZWwgb2Ygd2hhdCB3aW5zOiBuZXZlciBiZWxvdyBhIGZsb29yLCBtZWFzdXJlZCBhZ2FpbnN0IGEgaG9sZG91dCIsImludGVudHMiOlsiQklEX1NIQURFIl0sInJlc291cmNlcyI6eyJyZXF1ZXN0cyI6eyJjcHUiOiIxMDBtIiwibWVtb3J5IjoiMjU2TWkifSwibGltaXRzIjp7Im1lbW9yeSI6IjFHaSJ9fSwiZGVwZW5kZW5jaWVzIjp7fSwiaGVhbHRoIjp7ImxpdmVuZXNzUHJvYmUiOnsiaHR0cEdldCI6eyJwYXRoIjoiL2hlYXJ0YmVhdCIsInBvcnQiOjUwMDUxfX0sInJlYWRpbmVzc1Byb2JlIjp7Imh0dHBHZXQiOnsicGF0aCI6Ii9oZWFsdGhjaGVjayIsInBvcnQiOjUwMDUxfX19LCJzZWN1cml0eSI6eyJydW5Bc05vblJvb3QiOnRydWUsInJ1bkFzVXNlciI6NjU1MzIsInJlYWRPbmx5Um9vdEZpbGVzeXN0ZW0iOnRydWUsImFsbG93UHJpdmlsZWdlRXNjYWxhdGlvbiI6ZmFsc2UsImNhcGFiaWxpdGllcyI6eyJkcm9wIjpbIkFMTCJdfX0sIm1haW50YWluZXJzIjpbeyJuYW1lIjoiVGhlIGJpZHdlaXIgYXV0aG9ycyJ9XSwidmVyc2lvbiI6IjAuMS4wIn0=' \
  com.iabtechlab.artf.container-version='0.1.0'
ENV NODE_ENV=production
ENV PATH=/usr/local/bin:/bin
# /tmp may be read-only.
ENV TMPDIR=/data
COPY --from=system /rootfs/ /
COPY --from=system /usr/local/bin/node /usr/local/bin/node
COPY --from=system --chown=65532:65532 /empty /data
COPY --from=application /usr/local/bin/bidweir /usr/local/bin/bidweir
COPY --from=application /app /app
# The state folder is data/, of the working directory or beside /etc/bidweir/bidweir.yaml: both are /data, the one
# place that is written to.
WORKDIR /
VOLUME /data
USER 65532:65532
EXPOSE 8080 8081 50051
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["node", "--eval", "fetch('http://127.0.0.1:8081/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# bidweir execs node: signals reach it as process 1.
ENTRYPOINT ["bidweir"]
# Without a configuration the admin listener would be on the container's own loopback, where -p does not reach it.
CMD ["start", "--admin", "0.0.0.0:8081"]
