# Types are checked and JavaScript is emitted in the first stage; what runs has neither compiler nor tests.
FROM node:26-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-fund --no-audit
COPY . .
RUN node node_modules/typescript/bin/tsc --project tsconfig.build.json
# Pages, schemas and whatever else is read beside the code.
RUN cp package.json dist/ && find . -maxdepth 1 -name '*.schema.json' -exec cp '{}' dist/ ';' && find admin proxy opd service -type f ! -name '*.ts' -exec cp --parents '{}' dist/ ';'
# A quarter of the container's memory is the heap's; proxy/memory.ts says who has the others.
RUN printf '#!/bin/sh\nexec node --max-old-space-size-percentage=25 --enable-source-maps /app/dist/main.js "$@"\n' > bidweir && chmod 755 bidweir

FROM node:26-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-fund --no-audit

FROM node:26-slim
ENV NODE_ENV=production
COPY --from=dependencies /app/package.json /app/package.json
COPY --from=dependencies /app/node_modules /app/node_modules
COPY --from=build /app/dist /app/dist
COPY --from=build /app/bidweir /usr/local/bin/bidweir
RUN mkdir -p /data /etc/bidweir && chown 65532:65532 /data && ln -s /data /etc/bidweir/data
# The state folder is data/, of the working directory or beside /etc/bidweir/bidweir.yaml: both are /data, the one
# place that is written to.
WORKDIR /
VOLUME /data
USER 65532:65532
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["node", "--eval", "fetch('http://127.0.0.1:8081/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# bidweir execs node: signals reach it as process 1.
ENTRYPOINT ["bidweir"]
CMD ["start"]
