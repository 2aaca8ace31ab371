FROM postgres:18 AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libssl-dev make postgresql-server-dev-$PG_MAJOR
COPY . /usr/src/inorder
RUN make -C /usr/src/inorder with_llvm=no install DESTDIR=/stage

FROM postgres:18
COPY --from=build /stage /
